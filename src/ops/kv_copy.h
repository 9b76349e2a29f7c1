// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/params.h"
#include "ops/op.h"
#include "plan/kv_copy.h"

namespace fovea {

struct KvCopyOp {
  using Params = fovea_kv_copy_params;
  using Spec = KvCopySpec;
  using Plan = KvCopyPlan;
  using Args = KvCopyArgs;
  static Status check(const Params& params, const Caps& caps, Spec& spec);
  static Status fits(const Spec& planned, const Spec& now);
  static Status bind(const Params& params, const Spec& spec, Args& args);
};

}  // namespace fovea
