// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/kernels/quantize.h"

#include <algorithm>
#include <atomic>
#include <cstring>

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

// The largest weights of pieces, and of the groups of one scale; then errors of the candidates likewise; then codes.
// What is added over pieces is added in their order.
bool quantize_fp8(const CpuContext& c, const QuantizeArgs& args, float* scratch) {
  const Fp8Pieces pieces(args.spec);
  const auto group_of = [&](int64_t piece) { return pieces.group_of(piece, args.spec.scale_kind); };
  float* of_piece = scratch;                                // [pieces, 9]
  float* of_group = scratch + pieces.count() * kFp8Floats;  // [groups, 9]
  std::atomic<bool> finite = true;
  c.parallel_for(pieces.count(), [&](int64_t i) {
    if (!fp8_largest(c.isa, args, i, of_piece + i * kFp8Floats)) finite = false;
  });
  std::fill_n(of_group, pieces.groups * kFp8Floats, 0.0f);
  for (int64_t i = 0; i < pieces.count(); ++i) {
    float& largest = of_group[group_of(i) * kFp8Floats];
    largest = std::max(largest, of_piece[i * kFp8Floats]);
  }
  c.parallel_for(pieces.count(), [&](int64_t i) {
    float errors[kFp8Candidates];
    fp8_errors(c.isa, args, i, of_group[group_of(i) * kFp8Floats], errors);
    std::copy_n(errors, kFp8Candidates, of_piece + i * kFp8Floats + 1);
  });
  for (int64_t i = 0; i < pieces.count(); ++i) {
    for (int j = 1; j <= kFp8Candidates; ++j) of_group[group_of(i) * kFp8Floats + j] += of_piece[i * kFp8Floats + j];
  }
  for (int64_t g = 0; g < pieces.groups; ++g) {
    float* group = of_group + g * kFp8Floats;
    const auto best = static_cast<int>(std::min_element(group + 1, group + 1 + kFp8Candidates) - (group + 1));
    group[0] = fp8_scale(group[0], best);
    const bool block = args.spec.scale_kind == WeightScale::block;
    char* to = block ? row(args.scale, g / pieces.across, g % pieces.across) : row(args.scale, g);
    std::memcpy(to, group, sizeof(float));
  }
  c.parallel_for(pieces.count(), [&](int64_t i) { fp8_encode(c.isa, args, i, of_group[group_of(i) * kFp8Floats]); });
  return finite;
}

}  // namespace

Status quantize(BackendContext& context, const QuantizePlan&, const QuantizeArgs& args, const fovea_exec& exec) {
  const CpuContext& c = cpu(context);
  if (exec.flags & FOVEA_EXEC_CHECK) FOVEA_TRY(check_finite(c, args));
  if (args.spec.out == Dtype::e4m3) {
    const bool finite = quantize_fp8(c, args, static_cast<float*>(exec.scratch));
    return finite ? Status() : report(exec, not_finite("x", __builtin_nanf("")));
  }
  const int64_t blocks = args.spec.n * (args.spec.k / dtype_block(args.spec.out));
  const int64_t task = quantize_blocks_per_task(args.spec.out);
  std::atomic<bool> finite = true;
  c.parallel_for((blocks + task - 1) / task, [&](int64_t i) {
    if (!quantize_blocks(c.isa, args, i * task, std::min(blocks, (i + 1) * task))) finite = false;
  });
  return finite ? Status() : report(exec, not_finite("x", __builtin_nanf("")));
}

}  // namespace fovea::cpu
