// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/kernels/norm.h"

#include <algorithm>

#include "backend/cpu/context.h"

namespace fovea::cpu {

Status norm(BackendContext& context, const NormPlan&, const NormArgs& args, const fovea_exec&) {
  CpuContext& c = cpu(context);
  const int64_t rows = args.spec.rows;
  const int64_t block = std::max<int64_t>(1, 16384 / args.spec.n);  // rows per task: enough work to hand out
  c.parallel_for((rows + block - 1) / block,
                 [&](int64_t i) { norm_rows(c.isa, args, i * block, std::min(rows, (i + 1) * block)); });
  return {};
}

}  // namespace fovea::cpu
