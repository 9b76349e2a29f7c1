// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/params.h"
#include "ops/op.h"
#include "plan/attention.h"

namespace fovea {

struct AttentionOp {
  using Params = fovea_attention_params;
  using Spec = AttentionSpec;
  using Plan = AttentionPlan;
  using Args = AttentionArgs;
  static Status check(const Params& params, const Caps& caps, Spec& spec);
  static Status fits(const Spec& planned, const Spec& now);
  static Status bind(const Params& params, const Spec& spec, Args& args);
};

}  // namespace fovea
