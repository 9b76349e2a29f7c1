// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/params.h"
#include "ops/op.h"
#include "plan/matmul.h"

namespace fovea {

struct MatmulOp {
  using Params = fovea_matmul_params;
  using Spec = MatmulSpec;
  using Plan = MatmulPlan;
  using Args = MatmulArgs;
  static Status check(const Params& params, const Caps& caps, Spec& spec);
  static Status fits(const Spec& planned, const Spec& now);
  static Status bind(const Params& params, const Spec& spec, Args& args);
};

}  // namespace fovea
