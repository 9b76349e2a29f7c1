// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/params.h"
#include "ops/op.h"
#include "plan/kv_append.h"

namespace fovea {

struct KvAppendOp {
  using Params = fovea_kv_append_params;
  using Spec = KvAppendSpec;
  using Plan = KvAppendPlan;
  using Args = KvAppendArgs;
  static Status check(const Params& params, const Caps& caps, Spec& spec);
  static Status fits(const Spec& planned, const Spec& now);
  static Status bind(const Params& params, const Spec& spec, Args& args);
};

}  // namespace fovea
