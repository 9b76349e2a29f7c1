// SPDX-License-Identifier: Apache-2.0
// attention, many rows, plain builds: as attention_prefill.cuh, with the start of a block and the copies of keys in as
// few instructions as they take. Blocks of short sequences live for a few steps only.
#pragma once

#include "backend/cuda/kernels/attention_plain.cuh"
#include "backend/cuda/kernels/attention_prefill.cuh"

namespace fovea {

struct PrefillPlainShared {
  alignas(128) char q[kParts * kQPart];
  KeyStage<kKeys, kWarps> stage[config::stages];
  // What is asked outside of inner steps lies here: registers of those are scarce.
  KeySource any_source;  // for pages that are not simple
  PlainSource source;
  PlainSequence sequence;
  RowBlock block;
  Keys keys;  // of the block, or of its part
  StepRules rules;
  int kv_head, v_dim;
  struct Warp {
    Keys every, any;      // of the warp's rows
    Keys row[kWarpRows];  // that it sees
    RowsOut out;
  } warp[kWarps];
};

// Starts copying the step's keys that the warp owns, of a simple source. `at`: their pages, then those of the step
// after.
inline void copy_step(const AttentionCudaArgs& g, PrefillPlainShared& shared, int stage, int key, PlainNext& at) {
  const AttentionStart& s = g.start;
  const int warp = warp_id(), own = key + warp * (kKeys / kWarps);
  const Keys keys = shared.keys;
  if (key >= keys.hi) return;
  if constexpr (config::paged != 0) {
    copy_simple_keys(g, shared.source, shared.stage[stage], warp, own, keys, at);
    at = plain_next(s, shared.source, own + kKeys, keys);
  } else {
    const OwnedRows from = owned_rows(s, shared.source, own);
    const int lo = max(keys.lo - own, 0), hi = keys.hi - own;
    copy_owned_rows<false>(s, from, shared.stage[stage], warp, lo, hi);
  }
  family::commit();
}

// All keys of a simple source.
inline void run_simple(const AttentionCudaArgs& g, PrefillPlainShared& shared, unsigned q, Output& o, RowState& state) {
  const AttentionStart& s = g.start;
  constexpr int kOwned = kKeys / kWarps;
  constexpr bool kPaged = config::paged != 0;
  const int warp = warp_id(), end = shared.keys.hi;
  const PrefillPlainShared::Warp& mine = shared.warp[warp];
  int key = shared.keys.lo / kKeys * kKeys, stage = 0;
  if (lane_id() == 0) shared.stage[0].bad[warp] = shared.stage[1].bad[warp] = 0;
  PlainNext at = {{0, 0}};  // the pages of what the warp copies next
  if constexpr (kPaged) at = plain_next(s, shared.source, key + warp * kOwned, shared.keys);
  copy_step(g, shared, 0, key, at);
  // Steps up to this one see nothing masked, and the next one's keys are whole. Their instructions are one run without
  // branches, so that products, exponentials and copies hide behind each other.
  const int last_inner = shared.rules.transform ? -1 : min(mine.every.hi - kKeys, end - 2 * kKeys);
#pragma unroll 1
  while (key < end) {
    bool arrived = false;
    if (key >= mine.every.lo && key <= last_inner && at.exists()) {
      const float to_log2 = shared.rules.to_log2;
      const bool may_fuse = shared.rules.may_fuse;
#pragma unroll 1
      do {
        const int own = key + kKeys + warp * kOwned;  // found while others arrive
        const OwnedRows next = kPaged ? owned_rows(s, shared.source, own, at) : owned_rows(s, shared.source, own);
        family::wait<0>();
        __syncthreads();
        if constexpr (kPaged) {
          arrived = shared.stage[stage].any_bad();
          if (arrived) break;
          if (lane_id() == 0) shared.stage[stage ^ 1].bad[warp] = 0;
          at = plain_next(s, shared.source, own + kKeys, shared.keys);
        }
        copy_owned_rows<true>(s, next, shared.stage[stage ^ 1], warp);
        family::commit();
        Scores scores;
        multiply_qk(scores, q, shared.stage[stage]);
        softmax(scores, o, state, to_log2, may_fuse);
        multiply_pv(o, scores, shared.stage[stage], shared.v_dim);
        stage ^= 1;
        key += kKeys;
      } while (key <= last_inner && at.exists());
    }
    if (!arrived) {
      family::wait<0>();
      __syncthreads();
    }
    copy_step(g, shared, stage ^ 1, key + kKeys, at);
    if (key < mine.any.hi && key + kKeys > mine.any.lo) {
      attend_plain(false, shared.rules, shared.stage[stage], q, key, mine.row[lane_id() % kWarpRows], mine.every,
                   shared.v_dim, o, state);
    }
    key += kKeys;
    stage ^= 1;
  }
}

// Keys of any source.
inline void run_any_keys(bool by_key, const AttentionCudaArgs& g, PrefillPlainShared& shared, unsigned q, Output& o,
                         RowState& state) {
  const AttentionStart& s = g.start;
  constexpr int kOwned = kKeys / kWarps;
  const int warp = warp_id();
  const PrefillPlainShared::Warp& mine = shared.warp[warp];
  const Keys keys = shared.keys;
  const int first_key = keys.lo / kKeys * kKeys;
  int stage = 1;
  PlainNext next = plain_next(s, shared.source, first_key + warp * kOwned, keys);
  // The first round only starts the first copy, while Q is on its way.
#pragma unroll 1
  for (int key = first_key - kKeys; key < keys.hi; key += kKeys, stage ^= 1) {
    if (key >= first_key) {
      family::wait<0>();
      __syncthreads();
    }
    const int ahead = key + kKeys, own = ahead + warp * kOwned;
    if (ahead < keys.hi) {
      copy_plain_keys(g, shared.source, shared.any_source, shared.stage[stage ^ 1], warp, own, keys, next,
                      row_bytes(g, shared.v_dim));
      family::commit();
      next = plain_next(s, shared.source, own + kKeys, keys);
    }
    if (key < first_key || key >= mine.any.hi || key + kKeys <= mine.any.lo) continue;
    attend_plain(by_key, shared.rules, shared.stage[stage], q, key, mine.row[lane_id() % kWarpRows], mine.every,
                 shared.v_dim, o, state);
  }
}

inline unsigned q_of_lane(const PrefillPlainShared& shared) {
  return shared_address(shared.q) + warp_id() * kWarpRows * QRows::kStride + q_lane_offset(lane_id());
}
inline void clear(const PrefillPlainShared& shared, Output& o, RowState& state) {
  clear(o, state);
  state.unit = shared.rules.v_scale;
}

// The warp's rows to where they belong. It does not wait for warps of later queries, so it may be too early: whether V
// holds NaN at a key of the block is known when all are done. True then: all do it again, key by key.
inline bool finish_rows(const AttentionCudaArgs& g, PrefillPlainShared& shared, bool by_key, const Output& o,
                        RowState& state) {
  const int first = warp_id() * kWarpRows;
  if (g.parts > 1) {
    store_piece(piece_at(g, slot_of_block(g)), shared.block, first, shared.rules.to_log2, o, state);
  } else {
    store_rows(g, request_of(g.a, shared.sequence), shared.block, first, shared.kv_head, shared.v_dim,
               shared.rules.to_log2, o, state, shared.warp[warp_id()].out, shared.q);
  }
  if (__syncthreads_or(!by_key && poisoned(o, state)) == 0) return false;
  load_plain_q(g, shared.sequence, shared.block, shared.kv_head, shared.q);  // results lay there
  return true;
}

// Beside the loop over a simple source it would take registers from that.
__noinline__ void run_any(bool by_key, const AttentionCudaArgs& g, PrefillPlainShared& shared) {
  Output o;
  RowState state;
#pragma unroll 1
  do {
    clear(shared, o, state);
    run_any_keys(by_key, g, shared, q_of_lane(shared), o, state);
    by_key = finish_rows(g, shared, by_key, o, state);
  } while (by_key);
}

inline void prefill_plain(const AttentionCudaArgs& g) {
  static_assert(sizeof(PrefillPlainShared) <= attention_smem_bytes(kShape));
  extern __shared__ char shared_bytes[];
  PrefillPlainShared& shared = *reinterpret_cast<PrefillPlainShared*>(shared_bytes);
  const AttentionStart& s = g.start;
  const int lane = lane_id(), warp = warp_id(), first_row = warp * kWarpRows;
  const SlotUnit at = slot_of_block(g);
  const int kv_head = at.unit % s.kv_heads, v_dim = at.unit / s.kv_heads * config::d_v;
  Slot slot;
  if (!find_slot(g, config::block_rows, at.slot, slot)) return;
  const int rows = slot.tokens * s.group.divisor;
  if (rows <= g.least_rows || rows > g.most_rows) return;
  const PlainSequence r = plain_sequence(g, static_cast<int>(slot.b), {slot.first, slot.tokens});
  const RowBlock block = {slot.row_block * config::block_rows,
                          min(config::block_rows, rows - slot.row_block * config::block_rows)};
  load_plain_q(g, r, block, kv_head, shared.q);

  const PlainSource source = plain_source(s, r, kv_head, v_dim);
  {
    Keys keys = plain_rows_keys(s, r, block.first, block.count).any;
    if (g.parts > 1) {
      const int from = keys.lo / kTileKeys, tiles = keys.hi > keys.lo ? (keys.hi - 1) / kTileKeys + 1 - from : 0;
      const int each = (tiles + g.parts - 1) / g.parts, begin = from + static_cast<int>(blockIdx.z) * each;
      keys = {max(keys.lo, begin * kTileKeys), min(keys.hi, min(begin + each, from + tiles) * kTileKeys)};
    }
    PrefillPlainShared::Warp& mine = shared.warp[warp];
    const RowsKeys warp_keys = plain_rows_keys(s, r, block.first + first_row, min(kWarpRows, block.count - first_row));
    if (lane == 0) mine.every = warp_keys.every, mine.any = warp_keys.any;
#pragma unroll
    for (int i = lane; i < kWarpRows; i += 32) {
      mine.row[i] =
          first_row + i < block.count ? plain_keys(s, r, divide(block.first + first_row + i, s.group)) : Keys{0, 0};
    }
    if (threadIdx.x == 0) {
      shared.source = source;
      shared.sequence = r;
      shared.block = block;
      shared.keys = keys;
      shared.rules = step_rules(g.a, 0, kv_head, nullptr);
      shared.kv_head = kv_head;
      shared.v_dim = v_dim;
      if (!source.simple)
        find_any_source(g, r, kv_head, v_dim, keys, shared.any_source);  // any page size, any alignment
    }
    if (keys.lo >= keys.hi) family::wait<0>();  // no step will, and results are to lie where Q arrives
    __syncthreads();
  }
  bool by_key = false;
  if (source.simple) {
    Output o;
    RowState state;
    clear(shared, o, state);
    run_simple(g, shared, q_of_lane(shared), o, state);
    by_key = finish_rows(g, shared, false, o, state);
    if (!by_key) return;
  }
  run_any(by_key, g, shared);
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
