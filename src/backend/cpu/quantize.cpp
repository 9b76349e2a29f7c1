// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/kernels/quantize.h"

#include <algorithm>
#include <atomic>

#include "backend/cpu/context.h"

namespace fovea::cpu {

namespace {

Status not_finite(const std::string& name, float x) {
  return invalid_value(name, format_float(x), "must be finite");
}

// The first element, by rows, that is not finite.
Status check_finite(const CpuContext& c, const QuantizeArgs& args) {
  const int64_t n = args.spec.n, k = args.spec.k;
  std::atomic<int64_t> row = n;
  c.parallel_for(n, [&](int64_t i) {
    if (i > row || first_not_finite(c.isa, args, i) == k) return;
    for (int64_t known = row; i < known && !row.compare_exchange_weak(known, i);) {
    }
  });
  if (row == n) return {};
  const int64_t at = first_not_finite(c.isa, args, row);
  const float x = float_at(fovea::row(args.x, row) + at * args.x.block_bytes, args.x.dtype);
  return not_finite("x[" + std::to_string(row) + ", " + std::to_string(at) + "]", x);
}

}  // namespace

Status quantize(BackendContext& context, const QuantizePlan&, const QuantizeArgs& args, const fovea_exec& exec) {
  const CpuContext& c = cpu(context);
  if (exec.flags & FOVEA_EXEC_CHECK) FOVEA_TRY(check_finite(c, args));
  const int64_t blocks = args.spec.n * (args.spec.k / dtype_block(args.spec.out));
  const int64_t task = quantize_blocks_per_task(args.spec.out);
  std::atomic<bool> finite = true;
  c.parallel_for((blocks + task - 1) / task, [&](int64_t i) {
    if (!quantize_blocks(c.isa, args, i * task, std::min(blocks, (i + 1) * task))) finite = false;
  });
  return finite ? Status() : report(exec, not_finite("x", __builtin_nanf("")));
}

}  // namespace fovea::cpu
