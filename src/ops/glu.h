// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/params.h"
#include "ops/op.h"
#include "plan/glu.h"

namespace fovea {

struct GluOp {
  using Params = fovea_glu_params;
  using Spec = GluSpec;
  using Plan = GluPlan;
  using Args = GluArgs;
  static Status check(const Params& params, const Caps& caps, Spec& spec);
  static Status fits(const Spec& planned, const Spec& now);
  static Status bind(const Params& params, const Spec& spec, Args& args);
};

}  // namespace fovea
