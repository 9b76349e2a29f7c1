// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/kernels/merge_states.h"

#include <algorithm>

#include "backend/cpu/context.h"

namespace fovea::cpu {

Status merge_states(BackendContext& context, const MergeStatesPlan&, const MergeStatesArgs& args, const fovea_exec&) {
  const CpuContext& c = cpu(context);
  const int64_t rows = args.spec.batch * args.spec.tokens * args.spec.heads;
  // Rows per task: enough work to hand out.
  const int64_t block = std::max<int64_t>(1, 16384 / (args.spec.d * args.spec.parts));
  c.parallel_for((rows + block - 1) / block,
                 [&](int64_t i) { merge_rows(c.isa, args, i * block, std::min(rows, (i + 1) * block)); });
  return {};
}

}  // namespace fovea::cpu
