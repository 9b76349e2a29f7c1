// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/params.h"
#include "ops/op.h"
#include "plan/rope.h"

namespace fovea {

struct RopeOp {
  using Params = fovea_rope_params;
  using Spec = RopeSpec;
  using Plan = RopePlan;
  using Args = RopeArgs;
  static Status check(const Params& params, const Caps& caps, Spec& spec);
  static Status fits(const Spec& planned, const Spec& now);
  static Status bind(const Params& params, const Spec& spec, Args& args);
};

}  // namespace fovea
