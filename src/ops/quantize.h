// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/params.h"
#include "ops/op.h"
#include "plan/quantize.h"

namespace fovea {

struct QuantizeOp {
  using Params = fovea_quantize_params;
  using Spec = QuantizeSpec;
  using Plan = QuantizePlan;
  using Args = QuantizeArgs;
  static Status check(const Params& params, const Caps& caps, Spec& spec);
  static Status fits(const Spec& planned, const Spec& now);
  static Status bind(const Params& params, const Spec& spec, Args& args);
};

}  // namespace fovea
