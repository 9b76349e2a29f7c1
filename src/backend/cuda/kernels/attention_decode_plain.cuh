// SPDX-License-Identifier: Apache-2.0
// attention, few rows, plain builds, cut even: as attention_decode.cuh, with the start of a block in as few steps as it
// takes: a short sequence is little more than a start.
#pragma once

#include "backend/cuda/kernels/attention_decode.cuh"
#include "backend/cuda/kernels/attention_plain.cuh"

namespace fovea {

// Tiles of one row block, at least 1: rows without a key still get their result.
inline int plain_tiles(const AttentionStart& s, const PlainSequence& r, RowBlock block, Keys& keys) {
  keys = plain_rows_keys(s, r, block.first, block.count).any;
  return keys.lo < keys.hi ? (keys.hi - 1) / kTileKeys + 1 - keys.lo / kTileKeys : 1;
}
inline int plain_row_blocks(const AttentionCudaArgs& g, const PlainSequence& r) {
  const int rows = r.tokens * g.start.group.divisor;
  if (rows <= g.least_rows || rows > g.most_rows) return 0;
  return (rows + config::block_rows - 1) / config::block_rows;
}
inline RowBlock plain_row_block(const PlainSequence& r, int group, int index) {
  const int first = index * config::block_rows;
  return {first, min(config::block_rows, r.tokens * group - first)};
}
inline PlainSequence read_sequence(const AttentionCudaArgs& g, int b) {
  return plain_sequence(g, b, g.start.padded ? SequenceTokens{0, g.start.tokens} : sequence_tokens(g, b));
}
inline int plain_sequence_tiles(const AttentionCudaArgs& g, const PlainSequence& r) {
  const int blocks = plain_row_blocks(g, r);
  int tiles = 0;
  Keys keys;
#pragma unroll 1
  for (int i = 0; i < blocks; ++i) tiles += plain_tiles(g.start, r, plain_row_block(r, g.start.group.divisor, i), keys);
  return tiles;
}

// The line of all tiles, and the piece of it that is this block's: it begins in sequence r, before which the line has
// `before` tiles.
struct Line {
  i64_t per_block;
  i64_t begin, end;  // tiles
  PlainSequence r;
  i64_t before;
  bool empty() const { return begin >= end; }
};
inline Line cut_line(const AttentionCudaArgs& g, int tiles, int units) {
  const i64_t total = static_cast<i64_t>(tiles) * units;
  Line line = {};
  line.per_block = at_least(share_of_block(g, total), g.least_tiles);
  line.begin = static_cast<int>(blockIdx.x) * line.per_block;
  line.end = at_most(line.begin + line.per_block, total);
  return line;
}

inline PlainSequence from_lane(const PlainSequence& r, int lane) {
  const auto from = [&](int x) { return __shfl_sync(kAllLanes, x, lane); };
  return {from(r.b),     from(r.first), from(r.tokens), from(r.active),
          from(r.q_len), from(r.len),   from(r.start),  from(r.end)};
}
// Up to 32 sequences: each warp finds it for itself, a lane for each. One sequence: every lane reads it.
inline Line find_piece_by_warp(const AttentionCudaArgs& g, int units) {
  const int batch = g.start.batch, b = batch == 1 ? 0 : lane_id();
  PlainSequence mine;
  int tiles = 0;
  if (b < batch) mine = read_sequence(g, b), tiles = plain_sequence_tiles(g, mine);
  if (batch == 1) {
    Line line = cut_line(g, tiles, units);
    line.r = mine;
    return line;
  }
  const int sum = warp_scan(tiles);
  Line line = cut_line(g, __shfl_sync(kAllLanes, sum, 31), units);
  if (line.empty()) return line;
  const i64_t first = static_cast<i64_t>(sum - tiles) * units, last = static_cast<i64_t>(sum) * units;
  const int owner = __ffs(static_cast<int>(__ballot_sync(kAllLanes, line.begin >= first && line.begin < last))) - 1;
  line.r = from_lane(mine, owner);
  line.before = __shfl_sync(kAllLanes, first, owner);
  return line;
}

inline Line find_piece(const AttentionCudaArgs& g, DecodeShared& shared, int units) {
  const int batch = g.start.batch, chunks = (batch + kThreads - 1) / kThreads;
  Line line = {};
  int all = 0, passed = 0;
  // Chunks of one sequence a thread: first all are counted, then looked at again for the one that the piece begins in.
  // A single chunk is counted and looked at in one round. One loop, so that its code is there once.
#pragma unroll 1
  for (int round = 0; round < (chunks > 1 ? 2 * chunks : chunks); ++round) {
    const bool counting = round < chunks;
    const int b = (counting ? round : round - chunks) * kThreads + static_cast<int>(threadIdx.x);
    PlainSequence r;
    int tiles = 0, before;
    if (b < batch) r = read_sequence(g, b), tiles = plain_sequence_tiles(g, r);
    const int here = block_scan(shared, tiles, before);
    if (counting) all += here;
    if (round == chunks - 1) {
      line = cut_line(g, all, units);
      if (line.empty()) return line;
    }
    if (counting && chunks > 1) continue;
    const i64_t first = static_cast<i64_t>(passed + before) * units;
    if (line.begin >= first && line.begin < first + static_cast<i64_t>(tiles) * units) {
      shared.plain = r;
      shared.found_before = first;
    }
    passed += here;
  }
  __syncthreads();
  line.r = shared.plain;
  line.before = shared.found_before;
  return line;
}

// Tiles [first, last) of the keys, by all warps: to o and state of each. `next`: the pages of the warp's first keys.
inline void plain_run(bool by_key, const AttentionCudaArgs& g, DecodeShared& shared, const PlainSequence& r,
                      const DecodeTask& task, const PlainSource& source, PlainNext next, const StepRules& rules,
                      Keys keys, int first, int last, Output& o, RowState& state) {
  using Stage = KeyStage<kKeys, 1>;
  const AttentionStart& s = g.start;
  const int lane = lane_id(), warp = warp_id();
  clear(o, state);
  state.unit = rules.v_scale;
  const unsigned q = shared_address(shared.q) + q_lane_offset(lane);
  const RowBytes bytes = row_bytes(g, task.v_dim);
  const RowsKeys rows = plain_rows_keys(s, r, task.block.first, task.block.count);
  const int my_row = lane % kWarpRows;
  const Keys mine =
      my_row < task.block.count ? plain_keys(s, r, divide(task.block.first + my_row, s.group)) : Keys{0, 0};
  constexpr int kSteps = kTileKeys / kStepKeys;
  first *= kSteps;
  last *= kSteps;
  const auto key_of = [&](int step) { return step * kStepKeys + warp * kKeys; };
  const int lead = min(kStages - 1, last - first);  // rounds that only start copies
#pragma unroll 1
  for (int t = first - lead; t < last; ++t) {
    if (t >= first) {
      if (last - t > kStages - 2) {
        family::wait<kStages - 2>();
      } else {
        family::wait<0>();
      }
      if (t == first) {
        __syncthreads();  // Q, of which each thread has waited for its part
      } else {
        __syncwarp();
      }
    }
    const int ahead = t + lead;
    if (ahead < last) {
      copy_plain_keys(g, source, shared.source, shared.stage[warp][ahead % kStages], 0, key_of(ahead), keys, next,
                      bytes);
      next = plain_next(s, source, key_of(ahead + 1), keys);
    }
    family::commit();
    const int key = key_of(t);
    if (t < first || key >= rows.any.hi || key + kKeys <= rows.any.lo) continue;
    attend_plain(by_key, rules, shared.stage[warp][t % kStages], q, key, mine, rows.every, task.v_dim, o, state);
  }
  family::wait<0>();
  __syncwarp();
}

inline void decode_plain(const AttentionCudaArgs& g, DecodeShared& shared) {
  const AttentionStart& s = g.start;
  const int kv_heads = s.kv_heads, group = s.group.divisor;
  const int units = kv_heads * ((s.d_v + config::d_v - 1) / config::d_v);
  touch_parameters(g);
  start_grid();
  const Line line = s.batch <= 32 ? find_piece_by_warp(g, units) : find_piece(g, shared, units);
  if (line.empty()) return;
  PlainSequence r = line.r;
  i64_t before = line.before;  // tiles of the line before the row block `index` of r
  int index = 0;
#pragma unroll 1
  for (i64_t tile = line.begin; tile < line.end;) {
    if (index >= plain_row_blocks(g, r)) {
      r = read_sequence(g, r.b + 1);
      index = 0;
      continue;
    }
    DecodeTask task;
    task.block = plain_row_block(r, group, index);
    Keys keys;
    const int tiles = plain_tiles(s, r, task.block, keys);
    if (tile >= before + static_cast<i64_t>(tiles) * units) {
      before += static_cast<i64_t>(tiles) * units;
      ++index;
      continue;
    }
    const int past = static_cast<int>(tile - before), unit = past / tiles, offset = past - unit * tiles;
    const int count = static_cast<int>(at_most(line.end - tile, tiles - offset));
    task.kv_head = unit;
    task.v_dim = 0;
    for (; task.kv_head >= kv_heads; task.kv_head -= kv_heads) task.v_dim += config::d_v;
    __syncthreads();  // merges of the task before are done with shared memory
    // Pages are asked for before Q, whose addresses take a while.
    const PlainSource source = plain_source(s, r, task.kv_head, task.v_dim);
    const int first = keys.lo / kTileKeys + offset, last = keys.lo < keys.hi ? first + count : first;
    const PlainNext next = plain_next(s, source, first * kTileKeys + warp_id() * kKeys, keys);
    load_plain_q(g, r, task.block, task.kv_head, shared.q);
    if (!source.simple) {  // any page size, any alignment
      if (threadIdx.x == 0) find_any_source(g, r, task.kv_head, task.v_dim, keys, shared.source);
      __syncthreads();
    }
    const StepRules rules = step_rules(g.a, 0, task.kv_head, nullptr);
    Output o;
    RowState state;
    bool by_key = false;
#pragma unroll 1
    while (true) {
      plain_run(by_key, g, shared, r, task, source, next, rules, keys, first, last, o, state);
      if (by_key || __syncthreads_or(poisoned(o, state)) == 0) break;
      by_key = true;
    }
    gather_warps(shared, task.block.count, rules.to_log2, o, state);
    const AttentionRequest request = request_of(g.a, r);
    finish_task(g, shared, request, task, tiles, count, offset, line.per_block);
    tile += count;
  }
}

// The body of a family's kernel.
inline void attention_decode(const AttentionCudaArgs& g) {
  static_assert(sizeof(DecodeShared) <= attention_smem_bytes(kShape));
  extern __shared__ char shared_bytes[];
  DecodeShared& shared = *reinterpret_cast<DecodeShared*>(shared_bytes);
  if constexpr (config::fixed != 0) {
    start_grid();
    decode_fixed(g, shared);
  } else if constexpr (kGeneral) {
    start_grid();
    decode_even(g, shared);
  } else {
    decode_plain(g, shared);
  }
}

}  // namespace fovea
