// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/kernels/glu.h"

#include <algorithm>

#include "backend/cpu/context.h"

namespace fovea::cpu {

Status glu(BackendContext& context, const GluPlan&, const GluArgs& args, const fovea_exec&) {
  const CpuContext& c = cpu(context);
  constexpr int64_t kElements = 4096;  // of one task: enough work to hand out
  const int64_t tokens = args.spec.tokens, n = args.spec.n;
  if (n == 0) return {};
  const int64_t pieces = (n + kElements - 1) / kElements;     // of a row
  const int64_t block = std::max<int64_t>(1, kElements / n);  // rows of one task
  const int64_t blocks = (tokens + block - 1) / block;
  c.parallel_for(blocks * pieces, [&](int64_t i) {
    const int64_t first = i % pieces * kElements;
    const int64_t begin = i / pieces * block, end = std::min(tokens, begin + block);
    for (int64_t t = begin; t < end; ++t) glu_row(c.isa, args, t, first, std::min(n - first, kElements));
  });
  return {};
}

}  // namespace fovea::cpu
