// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/params.h"
#include "ops/op.h"
#include "plan/verify.h"

namespace fovea {

struct VerifyOp {
  using Params = fovea_verify_params;
  using Spec = VerifySpec;
  using Plan = VerifyPlan;
  using Args = VerifyArgs;
  static Status check(const Params& params, const Caps& caps, Spec& spec);
  static Status fits(const Spec& planned, const Spec& now);
  static Status bind(const Params& params, const Spec& spec, Args& args);
};

}  // namespace fovea
