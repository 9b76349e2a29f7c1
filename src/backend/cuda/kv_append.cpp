// SPDX-License-Identifier: Apache-2.0
#include "ops/kv_append.h"

#include <algorithm>

#include "backend/cuda/blocks.h"
#include "backend/cuda/checked.h"
#include "backend/cuda/operations.h"
#include "ops/rope_config.h"

namespace fovea::cuda {

namespace {

constexpr i64_t kMostWarps = 8;  // of a block, as the kernel's launch bound

// Registers are what limits this kernel: 65536 of an SM, handed out to warps by 256; with one warp in a block also the
// 16 blocks that the small SMs hold.
i64_t resident_warps(const CudaContext& context, const KernelUse& use) {
  const auto* kernel = static_cast<const Kernel*>(use.loaded);
  const i64_t registers = kernel == nullptr ? 128 : std::max(kernel->registers, 32);
  const int card = context.caps.compute_capability;
  const i64_t blocks = card == 75 || card == 86 || card == 87 ? 16 : 24;
  return context.caps.sm_count * std::min(blocks, 65536 / ((registers * 32 + 255) / 256 * 256));
}

// Rank 1 or 2.
AppendNumbers numbers_of(const View& v) {
  if (!v.given()) return {};
  const i64_t bytes = v.block_bytes;
  const bool rows = v.rank == 2;
  return {.data = static_cast<const char*>(v.data),
          .row_stride = rows ? v.stride[0] * bytes : 0,
          .stride = v.stride[rows ? 1 : 0] * bytes,
          .wide = v.dtype == Dtype::i64};
}

// [tokens, heads, d]
KvStream stream_of(const View& v) {
  return {static_cast<char*>(v.data), 0, v.stride[0] * v.block_bytes, v.stride[1] * v.block_bytes};
}

KvStream beyond(KvStream s, i64_t bytes) {
  s.base += bytes;
  return s;
}

AppendRows input_rows(const AppendShape& shape, const View& v, i64_t heads) {
  AppendRows rows;
  rows.shape = shape;
  rows.heads = static_cast<int>(heads);
  rows.type = v.dtype;
  rows.from = stream_of(v);
  return rows;
}

void store_to_cache(const KvSideSpec& side, const KvStream& data, const KvStream& scale, AppendRows& rows) {
  rows.needs_slot = 1;
  rows.to_type = codec_dtype(side.codec);
  rows.to = data;
  rows.scale_kind = side.scale_kind;
  rows.scale_type = side.scale_dtype;
  rows.scale_group = side.scale_group;
  rows.scale = scale;
}

void take_norm(const View& weight, AppendRows& rows) {
  rows.weight = static_cast<const char*>(weight.data);
  rows.weight_type = weight.dtype;
}

AppendRows k_rows(const KvAppendArgs& a, const AppendShape& shape) {
  const KvSpec& kv = a.spec.kv;
  AppendRows rows = input_rows(shape, a.k, kv.heads);
  store_to_cache(kv.k, a.kv.k, a.kv.k_scale, rows);
  rows.tail_type = kv.rope_dtype;
  rows.tail = a.kv.k_rope;
  take_norm(a.k_norm_weight, rows);
  const bool changed = a.k_norm_weight.given() || a.spec.rotary.rotary_dim > 0;
  const bool scaled = kv.k.scale_kind != ScaleKind::none;
  rows.copy = !changed && !scaled;
  // Where the cache has k's own type, storing rounds.
  const bool stored_as_it_is = !scaled && rows.to_type == rows.type && (!kv.d_rope || rows.tail_type == rows.type);
  rows.round = changed && rows.type != Dtype::f32 && !stored_as_it_is;
  return rows;
}

AppendRows v_rows(const KvAppendArgs& a, const AppendShape& shape) {
  const KvSpec& kv = a.spec.kv;
  AppendRows rows = input_rows(shape, a.v, kv.heads);
  store_to_cache(kv.v, a.kv.v, a.kv.v_scale, rows);
  rows.copy = kv.v.scale_kind == ScaleKind::none;
  return rows;
}

AppendRows q_rows(const KvAppendArgs& a, const AppendShape& shape) {
  AppendRows rows = input_rows(shape, a.q, a.spec.q_heads);
  rows.to_type = rows.tail_type = a.q_out.dtype;
  rows.to = stream_of(a.q_out);
  rows.tail = beyond(rows.to, i64_t{shape.main} * a.q_out.block_bytes);
  take_norm(a.q_norm_weight, rows);
  return rows;
}

// The index values are looked at before anything is written.
Status check_indices(const CudaContext& context, const KvAppendPlan& plan, const KvAppendArgs& args,
                     const KvAppendBlock& block, void* stream, CheckedCall& checked) {
  KvAppendBlock look = block;
  look.check_only = 1;
  FOVEA_TRY(launch(context, plan.kernels[0], kv_append_shape(plan, look, resident_warps(context, plan.kernels[0])),
                   look, stream));
  CheckReport report;
  FOVEA_TRY(checked.finish(report));
  const u64_t position = report.first[static_cast<int>(AppendReport::position)];
  const u64_t slot = report.first[static_cast<int>(AppendReport::slot)];
  i64_t value = 0;
  if (position != nothing_reported()) {
    const auto token = static_cast<i64_t>(position) / block.position_rows;
    const auto row = static_cast<i64_t>(position) % block.position_rows;
    FOVEA_TRY(checked.index_of(args.rotary.positions, row, token, value));
    return position_out_of_range("rope", args.spec.rotary, args.rotary, row, token, value);
  }
  if (slot == nothing_reported()) return {};
  const auto token = static_cast<i64_t>(slot);
  FOVEA_TRY(checked.index_of(args.slot_mapping, token, value));
  return slot_past_pool(args, token, value);
}

}  // namespace

KvAppendBlock kv_append_block(const KvAppendPlan& plan, const KvAppendArgs& a) {
  KvAppendBlock block;
  block.tokens = a.spec.tokens;
  block.pages = a.kv.pages;
  block.page_size = a.spec.kv.page_size;
  block.rows[0] = k_rows(a, plan.shape[0]);
  if (!a.spec.kv.v_in_k) block.rows[1] = v_rows(a, plan.shape[1]);
  if (a.q.given()) block.rows[2] = q_rows(a, plan.shape[2]);
  block.slot_mapping = numbers_of(a.slot_mapping);
  block.norm_eps = a.norm_eps;
  block.norm_weight_offset = a.norm_weight_offset;
  const RotarySpec& rotary = a.spec.rotary;
  if (rotary.rotary_dim == 0) return block;
  block.rotary_dim = rotary.rotary_dim;
  block.style = rotary.style;
  block.position_rows = rotary.position_rows;
  block.position_limit = position_limit(rotary, a.rotary);
  block.positions = numbers_of(a.rotary.positions);
  block.cos = numbers_of(a.rotary.cos);
  block.sin = numbers_of(a.rotary.sin);
  block.table = plan.table;
  return block;
}

LaunchShape kv_append_shape(const KvAppendPlan& plan, const KvAppendBlock& block, i64_t resident_warps) {
  i64_t tasks = 0;  // of a token, one warp each
  bool groups = false;
  for (const AppendRows& rows : block.rows) {
    tasks += (i64_t{rows.heads} * rows.shape.lanes + 31) / 32;
    groups = groups || rows.scale_kind == ScaleKind::group;
  }
  tasks = std::max<i64_t>(tasks, 1);
  const i64_t most =
      std::clamp<i64_t>(resident_warps / std::max<i64_t>(block.tokens, 1), 1, std::min(tasks, kMostWarps));
  const i64_t rounds = (tasks + most - 1) / most;
  const i64_t warps = (tasks + rounds - 1) / rounds;  // the fewest for their rounds
  // Blocks that all run at once and walk: none waits for its turn while others are done.
  const i64_t blocks = std::min(block.tokens, std::max<i64_t>(resident_warps / warps, 1));
  const int units = plan.kernels[0].request.constants[1].value;
  const i64_t bytes = append_smem(block.rotary_dim / 2).most + (groups ? warps * 256 * units : 0);
  return {.grid = {static_cast<unsigned>(blocks)},
          .block = {32 * static_cast<unsigned>(warps)},
          .smem_bytes = static_cast<unsigned>(bytes)};
}

Status kv_append(BackendContext& context, const KvAppendPlan& plan, const KvAppendArgs& args, const fovea_exec& exec) {
  const CudaContext& c = cuda(context);
  KvAppendBlock block = kv_append_block(plan, args);
  if (!(exec.flags & FOVEA_EXEC_CHECK)) {
    block.status = exec.status;
    return launch(c, plan.kernels[0], kv_append_shape(plan, block, resident_warps(c, plan.kernels[0])), block, exec);
  }
  CheckedCall checked(c, exec.stream);
  FOVEA_TRY(checked.open());
  block.report = checked.report();
  FOVEA_TRY(check_indices(c, plan, args, block, exec.stream, checked));
  FOVEA_TRY(launch(c, plan.kernels[0], kv_append_shape(plan, block, resident_warps(c, plan.kernels[0])), block, exec));
  CheckReport report;
  FOVEA_TRY(checked.finish(report));
  return report.count == 0 ? Status() : vectors_not_finite(static_cast<i64_t>(report.count));
}

}  // namespace fovea::cuda
