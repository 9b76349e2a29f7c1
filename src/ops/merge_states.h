// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/params.h"
#include "ops/op.h"
#include "plan/merge_states.h"

namespace fovea {

struct MergeStatesOp {
  using Params = fovea_merge_states_params;
  using Spec = MergeStatesSpec;
  using Plan = MergeStatesPlan;
  using Args = MergeStatesArgs;
  static Status check(const Params& params, const Caps& caps, Spec& spec);
  static Status fits(const Spec& planned, const Spec& now);
  static Status bind(const Params& params, const Spec& spec, Args& args);
};

}  // namespace fovea
