// SPDX-License-Identifier: Apache-2.0
// attention, many rows, plain builds: as attention_prefill.cuh, with the start of a block and the copies of keys in as
// few instructions as they take. Blocks of short sequences live for a few steps only.
#pragma once

#include "backend/cuda/kernels/attention_plain.cuh"

namespace fovea {

struct PrefillPlainShared {
  alignas(128) char q[kParts * kQPart];
  union {
    KeyStage<kKeys, kWarps> stage[config::stages];
    RowsOut out[kWarps];
  };
  float factor[config::block_rows];  // unused: plain builds have no factors
  KeySource source;                  // for pages that are not simple
};

inline void attention_prefill_plain(const AttentionCudaArgs& g) {
  static_assert(sizeof(PrefillPlainShared) <= attention_smem_bytes(kShape));
  static_assert(config::block_rows == kWarps * kWarpRows && config::stages == 2);
  extern __shared__ char shared_bytes[];
  PrefillPlainShared& shared = *reinterpret_cast<PrefillPlainShared*>(shared_bytes);
  const AttentionArgs& a = g.a;
  const int lane = lane_id(), warp = warp_id(), first_row = warp * kWarpRows;
  const int kv_heads = a.spec.kv[0].heads;
  const int kv_head = static_cast<int>(blockIdx.y) % kv_heads;
  const int v_dim = static_cast<int>(blockIdx.y) / kv_heads * config::d_v;
  // Later rows see more keys under a causal mask: start with them.
  const i64_t index = g.slots - 1 - static_cast<i64_t>(blockIdx.x);
  Slot slot;
  if (!find_slot(a, config::block_rows, index, slot)) return;
  const int group = a.spec.group, rows = slot.tokens * group;
  if (rows <= g.least_rows || rows > g.most_rows) return;
  const PlainSequence r = plain_sequence(g, static_cast<int>(slot.b), slot.first, slot.tokens);
  const RowBlock block = {slot.row_block * config::block_rows,
                          min(config::block_rows, rows - slot.row_block * config::block_rows)};
  if (!copy_plain_q(g, r, block, kv_head, shared.q)) {
    bool any_factor;
    load_q(g, request_of(a, r), block, kv_head, config::block_rows, shared.q, shared.factor, any_factor);
  }
  family::commit();

  Keys keys = plain_rows_keys(a, r, block.first, block.count).any;
  if (g.parts > 1) {
    const int from = keys.lo / kTileKeys, tiles = keys.hi > keys.lo ? (keys.hi - 1) / kTileKeys + 1 - from : 0;
    const int each = (tiles + g.parts - 1) / g.parts, begin = from + static_cast<int>(blockIdx.z) * each;
    keys = {max(keys.lo, begin * kTileKeys), min(keys.hi, min(begin + each, from + tiles) * kTileKeys)};
  }
  const RowsKeys warp_keys =
      plain_rows_keys(a, r, block.first + first_row, min(kWarpRows, block.count - first_row));
  const int my_row = first_row + lane % kWarpRows;
  const Keys mine = my_row < block.count ? plain_keys(a, r, (block.first + my_row) / group) : Keys{0, 0};
  const PlainSource source = plain_source(g, r, kv_head, v_dim);
  if (!source.simple || keys.lo % kKeys != 0 || keys.hi % kKeys != 0 || source.table[0] != nullptr) {
    // Any page size, ends of sequences, and pages that do not exist.
    if (threadIdx.x == 0) {
      find_source(a, request_of(a, r), 0, kv_head, v_dim, shared.source);
      shared.source.lo = keys.lo;
      shared.source.hi = keys.hi;
    }
    __syncthreads();
  }
  const RowBytes bytes = {.k = (a.spec.kv[0].d_k - a.spec.kv[0].d_rope) * (kK8 ? 1 : 2),
                          .rope = a.spec.kv[0].d_rope * 2,
                          .v = (a.spec.kv[0].d_v - v_dim) * (kV8 ? 1 : 2),
                          .k_align = g.k_align,
                          .rope_align = g.rope_align,
                          .v_align = g.v_align};
  const unsigned q = shared_address(shared.q) + first_row * QRows::kStride + q_lane_offset(lane);
  const StepRules rules = step_rules(a, 0, kv_head, nullptr);
  constexpr int kOwned = kKeys / kWarps;
  const int first_key = keys.lo / kKeys * kKeys;
  Output o;
  RowState state;
  const auto steps = [&](auto by_key) {
    clear(o, state);
    state.unit = rules.v_scale;
    int stage = 1, key = first_key - kKeys;
    PlainNext next = plain_next(a.kv[0], source, first_key + warp * kOwned, keys);
    // The first round only starts the first copy, while Q is on its way.
#pragma unroll 1
    for (; key < keys.hi; key += kKeys, stage ^= 1) {
      if (key >= first_key) {
        family::wait<0>();
        __syncthreads();
      }
      if (key + kKeys < keys.hi) {
        const int own = key + kKeys + warp * kOwned;
        copy_plain_keys(g, source, shared.source, shared.stage[stage ^ 1], warp, own, keys, next, bytes);
        family::commit();
        next = plain_next(a.kv[0], source, own + kKeys, keys);
      }
      if (key >= warp_keys.any.hi || key + kKeys <= warp_keys.any.lo || key < first_key) continue;
      attend_plain<decltype(by_key)::value>(rules, shared.stage[stage], q, key, mine, warp_keys.every, v_dim, o, state);
    }
  };
  steps(No{});
  if (__syncthreads_or(poisoned(o, state)) != 0) {
    steps(Yes{});
    __syncthreads();
  }
  const AttentionRequest request = request_of(a, r);
  if (g.parts > 1) {
    const i64_t unit = index * gridDim.y + blockIdx.y;
    store_piece(piece_at(g, unit * g.max_splits + blockIdx.z), block, first_row, rules.to_log2, o, state);
  } else {
    store_rows(g, request, block, first_row, kv_head, v_dim, rules.to_log2, o, state, shared.out[warp]);
  }
}

}  // namespace fovea
