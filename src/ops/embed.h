// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/params.h"
#include "ops/op.h"
#include "plan/embed.h"

namespace fovea {

struct EmbedOp {
  using Params = fovea_embed_params;
  using Spec = EmbedSpec;
  using Plan = EmbedPlan;
  using Args = EmbedArgs;
  static Status check(const Params& params, const Caps& caps, Spec& spec);
  static Status fits(const Spec& planned, const Spec& now);
  static Status bind(const Params& params, const Spec& spec, Args& args);
};

}  // namespace fovea
