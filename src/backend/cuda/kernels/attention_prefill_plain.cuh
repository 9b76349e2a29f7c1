// SPDX-License-Identifier: Apache-2.0
// attention, many rows, plain builds: as attention_prefill.cuh, with the start of a block and the copies of keys in as
// few instructions as they take. Blocks of short sequences live for a few steps only.
#pragma once

#include "backend/cuda/kernels/attention_plain.cuh"
#include "backend/cuda/kernels/attention_prefill.cuh"

namespace fovea {

struct PrefillPlainShared {
  alignas(128) char q[kParts * kQPart];
  union {
    KeyStage<kKeys, kWarps> stage[config::stages];
    RowsOut out[kWarps];
  };
  KeySource source;  // for pages that are not simple
  PlainSequence sequence;
  RowBlock block;
  // What a warp asks of its rows and of the sequence outside of inner steps: registers of those are scarce.
  struct Warp {
    PlainSource source;
    Keys every, any;      // of the warp's rows
    Keys row[kWarpRows];  // that it sees
  } warp[kWarps];
};

inline void prefill_plain(const AttentionCudaArgs& g) {
  static_assert(sizeof(PrefillPlainShared) <= attention_smem_bytes(kShape));
  extern __shared__ char shared_bytes[];
  PrefillPlainShared& shared = *reinterpret_cast<PrefillPlainShared*>(shared_bytes);
  const AttentionStart& s = g.start;
  const int lane = lane_id(), warp = warp_id(), first_row = warp * kWarpRows;
  const int kv_head = static_cast<int>(blockIdx.y) % s.kv_heads;
  const int v_dim = static_cast<int>(blockIdx.y) / s.kv_heads * config::d_v;
  // Later rows see more keys under a causal mask: start with them.
  const i64_t index = g.slots - 1 - static_cast<i64_t>(blockIdx.x);
  Slot slot;
  if (!find_slot(g, config::block_rows, static_cast<int>(index), slot)) return;
  const int rows = slot.tokens * s.group.divisor;
  if (rows <= g.least_rows || rows > g.most_rows) return;
  const PlainSequence r = plain_sequence(g, static_cast<int>(slot.b), {slot.first, slot.tokens});
  const RowBlock block = {slot.row_block * config::block_rows,
                          min(config::block_rows, rows - slot.row_block * config::block_rows)};
  if (!copy_plain_q(s, r, block, kv_head, shared.q)) make_plain_q(g, r, block, kv_head, shared.q);
  family::commit();

  Keys keys = plain_rows_keys(s, r, block.first, block.count).any;
  if (g.parts > 1) {
    const int from = keys.lo / kTileKeys, tiles = keys.hi > keys.lo ? (keys.hi - 1) / kTileKeys + 1 - from : 0;
    const int each = (tiles + g.parts - 1) / g.parts, begin = from + static_cast<int>(blockIdx.z) * each;
    keys = {max(keys.lo, begin * kTileKeys), min(keys.hi, min(begin + each, from + tiles) * kTileKeys)};
  }
  PrefillPlainShared::Warp& mine = shared.warp[warp];
  {
    const RowsKeys warp_keys = plain_rows_keys(s, r, block.first + first_row, min(kWarpRows, block.count - first_row));
    const PlainSource source = plain_source(s, r, kv_head, v_dim);
    if (lane == 0) mine.source = source, mine.every = warp_keys.every, mine.any = warp_keys.any;
#pragma unroll
    for (int i = lane; i < kWarpRows; i += 32) {
      mine.row[i] =
          first_row + i < block.count ? plain_keys(s, r, divide(block.first + first_row + i, s.group)) : Keys{0, 0};
    }
    __syncwarp();
    if (!source.simple) {  // any page size, any alignment
      if (threadIdx.x == 0) find_any_source(g, r, kv_head, v_dim, keys, shared.source);
      __syncthreads();
    }
  }
  const RowBytes bytes = row_bytes(g, v_dim);
  const unsigned q = shared_address(shared.q) + first_row * QRows::kStride + q_lane_offset(lane);
  const StepRules rules = step_rules(g.a, 0, kv_head, nullptr);
  constexpr int kOwned = kKeys / kWarps;
  const int first_key = keys.lo / kKeys * kKeys;
  Output o;
  RowState state;
  // Keys that every row of the block sees, in one buffer: most of a long sequence's, and their steps ask for nothing.
  Keys inner = plain_rows_keys(s, r, block.first, block.count).every;
  inner = {max(inner.lo, keys.lo), min(inner.hi, keys.hi)};
  if (!mine.source.simple || mine.source.table[0] != nullptr || rules.transform || block.count < config::block_rows) {
    inner = {0, 0};
  }
  if (lane == 0) shared.stage[0].bad[warp] = shared.stage[1].bad[warp] = 0;
  if (threadIdx.x == 0) shared.sequence = r, shared.block = block;  // until the steps are done
  bool by_key = false;
#pragma unroll 1
  while (true) {
    clear(o, state);
    state.unit = rules.v_scale;
    int stage = 1;
    PlainNext next = plain_next(s, mine.source, first_key + warp * kOwned, keys);
    // The first round only starts the first copy, while Q is on its way.
#pragma unroll 1
    for (int key = first_key - kKeys; key < keys.hi; key += kKeys, stage ^= 1) {
      if (key >= first_key) {
        family::wait<0>();
        __syncthreads();
      }
      const int ahead = key + kKeys, own = ahead + warp * kOwned;
      if (ahead >= inner.lo && ahead + kKeys <= inner.hi) {
        copy_inner_keys(s, mine.source, shared.stage[stage ^ 1], warp, own);
        family::commit();
      } else if (ahead < keys.hi) {
        copy_plain_keys(g, mine.source, shared.source, shared.stage[stage ^ 1], warp, own, keys, next, bytes);
        family::commit();
        next = plain_next(s, mine.source, own + kKeys, keys);
      }
      const bool all_seen = key >= inner.lo && key + kKeys <= inner.hi;
      if (!all_seen && (key < first_key || key >= mine.any.hi || key + kKeys <= mine.any.lo)) continue;
      attend_plain(by_key, all_seen, rules, shared.stage[stage], q, key, mine.row[lane % kWarpRows], mine.every, v_dim,
                   o, state);
    }
    // After the barrier every warp is done with the stages, too.
    if (__syncthreads_or(!by_key && poisoned(o, state)) == 0) break;
    by_key = true;
  }
  if (g.parts > 1) {
    const i64_t unit = index * gridDim.y + blockIdx.y;
    store_piece(piece_at(g, unit * g.max_splits + blockIdx.z), shared.block, first_row, rules.to_log2, o, state);
  } else {
    store_rows(g, request_of(g.a, shared.sequence), shared.block, first_row, kv_head, v_dim, rules.to_log2, o, state,
               shared.out[warp]);
  }
}

// The body of a family's kernel.
inline void attention_prefill(const AttentionCudaArgs& g) {
  start_grid();
  if constexpr (kGeneral) {
    prefill_general(g);
  } else {
    prefill_plain(g);
  }
}

}  // namespace fovea
