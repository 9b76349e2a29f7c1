// SPDX-License-Identifier: Apache-2.0
// attention, many rows: FlashAttention-2's order of work. Builds with every option.
//
//   grid    x: row blocks of all sequences, last first, by `together` units; y: units (kv heads x parts of d_v) by
//           `together`; z: parts of the keys (cut parts). Under a causal mask later rows see more keys: blocks of one
//           length run together, long ones first, but only so many units at a time as L2 holds keys of.
//   block   kWarps warps of kMTiles x 16 rows each
//   step    config::block_rows rows x kKeys keys, all dims
//   shared  Q [q_parts][block_rows][QRows] | stages of K, rope, V | rows of each warp | source of keys | request
//   order   wait for step t; start copying step t + 1; find the keys of step t + 2; S = Q K^T; softmax; O += P V
#pragma once

#include "backend/cuda/kernels/attention_store.cuh"

namespace fovea {

static_assert(config::block_rows == kWarps * kWarpRows && config::stages == 2);

struct PrefillShared {
  alignas(128) char q[kParts * kQPart];
  KeyStage<kKeys, kWarps> stage[config::stages];
  RowsOut out[kWarps];
  WarpRows rows[kWarps];
  KeySource source;
  AttentionRequest request;
  float factor[config::block_rows];  // of each row's logits
  int any_factor;
};

inline void prefill_general(const AttentionCudaArgs& g) {
  static_assert(sizeof(PrefillShared) <= attention_smem_bytes(kShape));
  extern __shared__ char shared_bytes[];
  PrefillShared& shared = *reinterpret_cast<PrefillShared*>(shared_bytes);
  const AttentionArgs& a = g.a;
  const int lane = lane_id(), warp = warp_id(), first_row = warp * kWarpRows;
  const int kv_heads = a.spec.heads / a.spec.group;
  const SlotUnit at = slot_of_block(g);
  const int kv_head = at.unit % kv_heads, v_dim = at.unit / kv_heads * config::d_v;
  Slot found;
  if (!find_slot(g, config::block_rows, at.slot, found)) return;
  if (threadIdx.x == 0) shared.any_factor = 0;
  RowBlock block;
  int begin = 0, end = 0x7FFFFFFF;  // tiles of this block's part
  {
    const AttentionRequest r = sequence_of(g, found.b);
    const int rows = static_cast<int>(r.tokens) * a.spec.group;
    if (rows <= g.least_rows || rows > g.most_rows) return;
    block.first = found.row_block * config::block_rows;
    block.count = min(config::block_rows, rows - block.first);
    if (threadIdx.x == 0) shared.request = r;
    if constexpr (kFactors) __syncthreads();  // any_factor
    bool any_factor = false;
    load_q(g, r, block, kv_head, config::block_rows, shared.q, shared.factor, any_factor);
    if (any_factor) shared.any_factor = 1;
    family::commit();
    if (g.parts > 1) {
      const int tiles = count_block_tiles(a, r, block), each = (tiles + g.parts - 1) / g.parts;
      begin = static_cast<int>(blockIdx.z) * each;
      end = min(begin + each, tiles);
    }
  }
  __syncthreads();
  const AttentionRequest& r = shared.request;
  const unsigned q = shared_address(shared.q) + first_row * QRows::kStride + q_lane_offset(lane);
  const RowBytes bytes = row_bytes(g, v_dim);
  Output o;
  RowState state;
  float to_log2 = 1;
  bool by_key = false;
#pragma unroll 1
  while (true) {
    clear(o, state);
    int passed = 0;  // tiles of the segments before
#pragma unroll 1
    for (int s = 0; s < (kGeneral ? a.spec.segments : 1); ++s) {
      const StepRules rules =
          step_rules(a, s, kv_head, kFactors && shared.any_factor != 0 ? shared.factor + first_row : nullptr);
      to_log2 = rules.to_log2;
      if (s == 0) state.unit = rules.v_scaled ? 0.0f : rules.v_scale;
      const Interval keys = block_keys(a, r, s, block);
      const TileRange tiles = tiles_of(keys);
      const int first = tiles.first + max(begin - passed, 0);
      const int last = min(tiles.last, end == 0x7FFFFFFF ? tiles.last : tiles.first + end - passed);
      passed += tiles.count();
      if (first >= last) continue;
      __syncthreads();  // the segment before is done with source and stages
      if (threadIdx.x == 0) {
        find_source(a, r, s, kv_head, v_dim, shared.source);
        shared.source.lo = static_cast<int>(keys.lo);
        shared.source.hi = static_cast<int>(keys.hi);
      }
      int full_lo, full_hi, any_lo, any_hi;
      WarpRows& rows = shared.rows[warp];
      find_rows(a, r, s, block, first_row, kv_head, rows, full_lo, full_hi, any_lo, any_hi);
      __syncthreads();
      constexpr int kOwned = kKeys / kWarps;
      const bool scaled = rules.k_scaled || rules.v_scaled;
      const int end_key = min(last * kTileKeys, shared.source.hi);
      const int first_key = max(first * kTileKeys, shared.source.lo / kKeys * kKeys);
      int key = first_key;
      using Stage = KeyStage<kKeys, kWarps>;
      LaneKey next = find_key<Stage>(shared.source, key + warp * kOwned);
      int stage = 1;
      // The first round only starts the first copy.
#pragma unroll 1
      for (key -= kKeys; key < end_key; key += kKeys, stage ^= 1) {
        family::wait<0>();
        __syncthreads();
        if (key + kKeys < end_key) {
          copy_keys(shared.stage[stage ^ 1], warp, next, bytes, scaled, g.status);
          family::commit();
          next = find_key<Stage>(shared.source, key + 2 * kKeys + warp * kOwned);
        }
        if (key >= any_hi || key + kKeys <= any_lo || key < first_key) continue;  // no row of this warp sees a key
        attend_step(by_key, a, r, s, rules, rows, shared.stage[stage], q, key, full_lo, full_hi, v_dim, o, state);
      }
    }
    family::wait<0>();
    if (by_key || __syncthreads_or(poisoned(o, state)) == 0) break;
    by_key = true;
  }
  if (g.parts > 1) {
    store_piece(piece_at(g, at), block, first_row, to_log2, o, state);
  } else {
    store_rows(g, r, block, first_row, kv_head, v_dim, to_log2, o, state, shared.out[warp], shared.q);
  }
}

}  // namespace fovea
