// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backend/cpu/context.h"
#include "backend/cpu/kernels/rope.h"
#include "backend/cpu/positions.h"

namespace fovea::cpu {

Status rope(BackendContext& context, const RopePlan& plan, const RopeArgs& args, const fovea_exec&) {
  const CpuContext& c = cpu(context);
  const i64_t tokens = args.spec.tokens;
  for (i64_t t = 0; t < tokens; ++t) FOVEA_TRY(check_position("config", args.spec.rotary, args.rotary, t));
  const i64_t token_size = std::max<i64_t>(1, args.spec.heads * args.spec.d);
  const i64_t block = std::max<i64_t>(1, 16384 / token_size);  // tokens per task: enough work to hand out
  c.parallel_for((tokens + block - 1) / block,
                 [&](i64_t i) { rope_tokens(c.isa, args, plan.table, i * block, std::min(tokens, (i + 1) * block)); });
  return {};
}

}  // namespace fovea::cpu
