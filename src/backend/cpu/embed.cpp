// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/kernels/embed.h"

#include <algorithm>

#include "backend/cpu/context.h"

namespace fovea::cpu {

Status embed(BackendContext& context, const EmbedPlan&, const EmbedArgs& args, const fovea_exec&) {
  const CpuContext& c = cpu(context);
  const int64_t tokens = args.spec.tokens, vocab = args.spec.vocab, n = args.spec.n;
  for (int64_t t = 0; t < tokens; ++t) {
    const int64_t id = index_at(args.ids, t);
    if (id < 0 || id >= vocab) {
      return invalid_value("ids[" + std::to_string(t) + "]", id, "must be in [0, " + std::to_string(vocab) + ")");
    }
  }
  if (n == 0) return {};
  const int64_t block = std::max<int64_t>(1, 8192 / n);  // rows of one task
  c.parallel_for((tokens + block - 1) / block,
                 [&](int64_t i) { embed_rows(c.isa, args, i * block, std::min(tokens, (i + 1) * block)); });
  return {};
}

}  // namespace fovea::cpu
