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

// What only the memory shows, in words that every backend uses.
Status slot_past_pool(const KvAppendArgs& args, i64_t token, i64_t slot);
Status vectors_not_finite(i64_t count);

}  // namespace fovea
