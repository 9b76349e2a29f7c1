// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/params.h"
#include "ops/op.h"
#include "plan/norm.h"

namespace fovea {

struct NormOp {
  using Params = fovea_norm_params;
  using Spec = NormSpec;
  using Plan = NormPlan;
  using Args = NormArgs;
  static Status check(const Params& params, const Caps& caps, Spec& spec);
  static Status fits(const Spec& planned, const Spec& now);
  static Status bind(const Params& params, const Spec& spec, Args& args);
};

}  // namespace fovea
