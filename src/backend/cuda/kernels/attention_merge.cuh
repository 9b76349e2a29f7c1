// SPDX-License-Identifier: Apache-2.0
// attention: the pieces of row blocks whose keys were cut into parts or fixed splits, merged in order of keys.
//
//   grid    x: row blocks, y: units        block: 128 threads, a warp for each row
#pragma once

#include "backend/cuda/kernels/family_plain.cuh"

// Made of the family.
#include "backend/cuda/kernels/attention_merge_parts.cuh"

namespace fovea {

extern "C" __global__ void __launch_bounds__(128) attention_merge(const __grid_constant__ AttentionCudaArgs g) {
  start_grid();
  const AttentionArgs& a = g.a;
  // Blocks of cut parts count their slots from the end.
  const i64_t slot = blockIdx.x;
  Slot found;
  if (!find_slot(g, config::block_rows, static_cast<int>(slot), found)) return;
  const AttentionRequest r = sequence_of(g, found.b);
  const int rows = static_cast<int>(r.tokens) * a.spec.group, first = found.row_block * config::block_rows;
  if (rows <= g.least_rows || rows > g.most_rows) return;
  const RowBlock block = {first, min(config::block_rows, rows - first)};
  const int parts = g.parts > 1 ? g.parts : count_splits(a, r, block, g.split_tiles);
  if (parts <= 1) return;  // stored already
  const int kv_heads = a.spec.heads / a.spec.group;
  const int kv_head = static_cast<int>(blockIdx.y) % kv_heads;
  const int v_dim = static_cast<int>(blockIdx.y) / kv_heads * config::d_v;
  const i64_t unit = slot * gridDim.y + blockIdx.y;
  constexpr i64_t kFloats = attention_piece_floats(config::block_rows, config::d_v);
  const Pieces pieces = {g.pieces + unit * g.max_splits * kFloats, kFloats, 0};
  merge_pieces<config::d_v>(block.count, parts, pieces, [&](int n, int dim, float4 value, float top, float sum) {
    store_merged(g, r, kv_head, first + n, v_dim, config::d_v, dim, value, top, sum);
  });
}

}  // namespace fovea
