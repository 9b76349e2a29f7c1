// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/kernels/matmul.h"

#include <algorithm>

#include "backend/cpu/context.h"

namespace fovea::cpu {

namespace {

float* packed_rows(const fovea_exec& exec) {
  const auto at = reinterpret_cast<uintptr_t>(exec.scratch);
  return reinterpret_cast<float*>((at + kMatmulAlign - 1) / kMatmulAlign * kMatmulAlign);
}

}  // namespace

Status matmul(BackendContext& context, const MatmulPlan&, const MatmulArgs& args, const fovea_exec& exec) {
  const CpuContext& c = cpu(context);
  const int64_t m = args.spec.m, n = args.spec.n, k = args.spec.k;
  if (m == 0 || n == 0) return {};
  float* packed = packed_rows(exec);
  const int64_t pack = std::max<int64_t>(1, (1 << 15) / std::max<int64_t>(k, 1));  // rows per task of packing
  c.parallel_for((m + pack - 1) / pack,
                 [&](int64_t i) { matmul_pack(c.isa, args, packed, i * pack, std::min(m, (i + 1) * pack)); });
  const int64_t weights = matmul_weights_per_task(m, n, k), columns = (n + weights - 1) / weights;
  constexpr int64_t kRows = kMatmulRows;
  const int64_t blocks = (m + kRows - 1) / kRows;
  c.parallel_for(blocks * columns, [&](int64_t i) {
    const int64_t m_first = i / columns * kRows, n_first = i % columns * weights;
    matmul_block(c.isa, args, packed, m_first, std::min(m, m_first + kRows), n_first, std::min(n, n_first + weights));
  });
  return {};
}

}  // namespace fovea::cpu
