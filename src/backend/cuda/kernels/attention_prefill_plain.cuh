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
  if (!copy_plain_q(g, r, block, kv_head, shared.q)) make_plain_q(g, r, block, kv_head, shared.q);
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
  if (!source.simple) {  // any page size, any alignment
    if (threadIdx.x == 0) find_any_source(g, r, kv_head, v_dim, keys, shared.source);
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
  // Steps whose keys every row of the block sees, in one buffer: most of a long sequence's, and nothing is asked in them.
  Keys inner = plain_rows_keys(a, r, block.first, block.count).every;
  inner = {max(inner.lo, keys.lo), min(inner.hi, keys.hi)};
  if (!source.simple || source.table[0] != nullptr || rules.transform || block.count < config::block_rows) {
    inner = {0, 0};
  }
  if (lane == 0) shared.stage[0].bad[warp] = shared.stage[1].bad[warp] = 0;
  const auto steps = [&](auto by_key) {
    clear(o, state);
    state.unit = rules.v_scale;
    int stage = 1, key = first_key - kKeys;
    PlainNext next = plain_next(a.kv[0], source, first_key + warp * kOwned, keys);
#pragma unroll 1
    while (key < keys.hi) {
      if constexpr (!decltype(by_key)::value && !kVInK && config::d_rope == 0) {
        if (key >= max(first_key, inner.lo) && key + 2 * kKeys <= inner.hi) {
          const i64_t k_stride = a.kv[0].k.token_stride, v_stride = a.kv[0].v.token_stride;
          const char* k_from = source.base[0] + (key + kKeys + warp * kOwned) * k_stride;
          const char* v_from = source.base[1] + (key + kKeys + warp * kOwned) * v_stride;
#pragma unroll 1
          do {
            family::wait<0>();
            __syncthreads();
            auto& to = shared.stage[stage ^ 1];
            copy_plain_rows<KRows, kOwned, true>(shared_address(to.k) + warp * kOwned * KRows::kStride, k_from, k_stride, 0,
                                                 kOwned);
            copy_plain_rows<VRows, kOwned, true>(shared_address(to.v) + warp * kOwned * VRows::kStride, v_from, v_stride, 0,
                                                 kOwned);
            family::commit();
            k_from += kKeys * k_stride;
            v_from += kKeys * v_stride;
            Scores scores;
            multiply_qk(scores, q, shared.stage[stage]);
            softmax(scores, o, state, rules.to_log2, rules.may_fuse);
            multiply_pv(o, scores, shared.stage[stage], v_dim);
            key += kKeys;
            stage ^= 1;
          } while (key + 2 * kKeys <= inner.hi);
        }
      }
      if (key >= first_key) {  // the first round only starts the first copy, while Q is on its way
        family::wait<0>();
        __syncthreads();
      }
      if (key + kKeys < keys.hi) {
        const int own = key + kKeys + warp * kOwned;
        copy_plain_keys(g, source, shared.source, shared.stage[stage ^ 1], warp, own, keys, next, bytes);
        family::commit();
        next = plain_next(a.kv[0], source, own + kKeys, keys);
      }
      if (key < warp_keys.any.hi && key + kKeys > warp_keys.any.lo && key >= first_key) {
        attend_plain<decltype(by_key)::value>(rules, shared.stage[stage], q, key, mine, warp_keys.every, v_dim, o,
                                              state);
      }
      key += kKeys;
      stage ^= 1;
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
