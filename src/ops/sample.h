// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/params.h"
#include "ops/op.h"
#include "plan/sample.h"

namespace fovea {

struct SampleOp {
  using Params = fovea_sample_params;
  using Spec = SampleSpec;
  using Plan = SamplePlan;
  using Args = SampleArgs;
  static Status check(const Params& params, const Caps& caps, Spec& spec);
  static Status fits(const Spec& planned, const Spec& now);
  static Status bind(const Params& params, const Spec& spec, Args& args);
};

}  // namespace fovea
