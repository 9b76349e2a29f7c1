// SPDX-License-Identifier: Apache-2.0
// attention, few rows: one block of threads has every row of a row block; its warps take keys, 16 of each step,
// each in a pipeline of its own. Included by a family's file.
//
//   cut even    grid x: as many blocks as run at once. The tiles of all row blocks and units form one line (sequence by
//               sequence, row block by row block, unit by unit); each block takes an equal piece of it, so that ragged
//               lengths leave no block idle. A row block and unit that begins in one block and ends in another leaves
//               f32 pieces (two per block), and the last of these blocks to finish merges them in order of keys.
//   cut fixed   grid x: row blocks, y: units, z: splits, with a stride. A split is a run of split_tiles tiles at a
//               fixed place of its segment, so that the bits of a row depend on nothing but its own keys.
//   shared      Q [q_parts][block_rows][QRows] | kWarps x kStages x { K, rope, V of 16 keys }, later the warps' results
//   order       each warp: wait for its oldest stage, start a copy, S = Q K^T, softmax, O += P V
#pragma once

#include "backend/cuda/kernels/attention_plain.cuh"
#include "backend/cuda/kernels/ptx/atomic.cuh"

namespace fovea {

constexpr int kStages = config::stages;
constexpr int kStepKeys = kWarps * kKeys;  // of all warps
static_assert(config::block_rows == kWarpRows && kKeys == 16 && kTileKeys % kStepKeys == 0);

struct DecodeShared {
  alignas(128) char q[kParts * kQPart];
  union {
    KeyStage<kKeys, 1> stage[kWarps][kStages];
    alignas(16) float o[kWarps][config::block_rows][config::d_v];
  };
  WarpRows rows[kWarps];
  float factor[config::block_rows];
  KeySource source;
  AttentionRequest request;
  float top[kWarps][config::block_rows];
  float sum[kWarps][config::block_rows];
  float unit[kWarps][config::block_rows];
  i64_t warp_tiles[kWarps];
  i64_t found_before;  // tiles before the sequence that holds the piece's first tile
  i64_t found;
  int any_factor;
  int last;
  PlainSequence plain;  // plain builds: the sequence of the piece's first tile
};

// What a block of threads works on at a time.
struct DecodeTask {
  RowBlock block;
  int kv_head;
  int v_dim;
};

inline RowBlock row_block_of(const AttentionRequest& r, int group, int index) {
  const int rows = static_cast<int>(r.tokens) * group, first = index * config::block_rows;
  return {first, min(config::block_rows, rows - first)};
}
inline int count_row_blocks(const AttentionCudaArgs& g, const AttentionRequest& r) {
  const int rows = static_cast<int>(r.tokens) * g.a.spec.group;
  if (rows <= g.least_rows || rows > g.most_rows) return 0;
  return (rows + config::block_rows - 1) / config::block_rows;
}
// Rows without a key still get their result: as if they had one tile.
inline int tiles_on_line(const AttentionArgs& a, const AttentionRequest& r, RowBlock block) {
  return max(count_block_tiles(a, r, block), 1);
}
inline i64_t sequence_tiles(const AttentionCudaArgs& g, const AttentionRequest& r) {
  i64_t tiles = 0;
  const int blocks = count_row_blocks(g, r);
  for (int i = 0; i < blocks; ++i) tiles += tiles_on_line(g.a, r, row_block_of(r, g.a.spec.group, i));
  return tiles;
}

// Sum over the block of each thread's value; `before` is the sum of the threads before.
template <class T>
inline T block_scan(DecodeShared& shared, T value, T& before) {
  const int lane = lane_id(), warp = warp_id();
  T* sums = reinterpret_cast<T*>(shared.warp_tiles);
  const T sum = warp_scan(value);
  __syncthreads();
  if (lane == 31) sums[warp] = sum;
  __syncthreads();
  T total = 0;
  before = sum - value;
#pragma unroll
  for (int i = 0; i < kWarps; ++i) {
    if (i < warp) before += sums[i];
    total += sums[i];
  }
  return total;
}

// Tiles of one unit over all sequences.
inline i64_t count_tiles(const AttentionCudaArgs& g, DecodeShared& shared) {
  i64_t mine = 0, before = 0;
  for (i64_t b = threadIdx.x; b < g.a.spec.batch; b += kThreads) mine += sequence_tiles(g, sequence_of(g, b));
  return block_scan(shared, mine, before);
}

// The sequence that holds tile `tile` of the line, in shared.found; tiles of all units before it in
// shared.found_before.
inline void find_sequence(const AttentionCudaArgs& g, DecodeShared& shared, i64_t tile, int units) {
  i64_t passed = 0;
  for (i64_t first = 0; first < g.a.spec.batch; first += kThreads) {
    const i64_t b = first + threadIdx.x;
    const i64_t tiles = b < g.a.spec.batch ? sequence_tiles(g, sequence_of(g, b)) : 0;
    i64_t before;
    const i64_t total = block_scan(shared, tiles, before);
    const i64_t begin = (passed + before) * units;
    if (tile >= begin && tile < begin + tiles * units) {
      shared.found = b;
      shared.found_before = begin;
    }
    passed += total;
    if (passed * units > tile) break;
  }
  __syncthreads();
}

inline void start_q(const AttentionCudaArgs& g, DecodeShared& shared, const DecodeTask& task) {
  bool any_factor = false;
  load_q(g, shared.request, task.block, task.kv_head, config::block_rows, shared.q, shared.factor, any_factor);
  if constexpr (kFactors) {
    const int any = __syncthreads_or(any_factor);
    if (threadIdx.x == 0) shared.any_factor = any;
    __syncthreads();  // before anyone reads it
  }
  family::commit();
}

// Tiles [first, last) of segment s.
inline void run_tiles(bool by_key, const AttentionCudaArgs& g, DecodeShared& shared, const DecodeTask& task, int s,
                      const StepRules& rules, int first, int last, Output& o, RowState& state) {
  using Stage = KeyStage<kKeys, 1>;
  const AttentionArgs& a = g.a;
  const int lane = lane_id(), warp = warp_id();
  const unsigned q = shared_address(shared.q) + q_lane_offset(lane);
  const RowBytes bytes = row_bytes(g, task.v_dim);
  int full_lo, full_hi, any_lo, any_hi;
  WarpRows& rows = shared.rows[warp];
  find_rows(a, shared.request, s, task.block, 0, task.kv_head, rows, full_lo, full_hi, any_lo, any_hi);
  const bool scaled = rules.k_scaled || rules.v_scaled;
  constexpr int kSteps = kTileKeys / kStepKeys;
  first *= kSteps;
  last *= kSteps;
  const auto key_of = [&](int step) { return step * kStepKeys + warp * kKeys; };
  LaneKey next = find_key<Stage>(shared.source, key_of(first));
  // The first rounds only start copies.
#pragma unroll 1
  for (int t = first - kStages + 1; t < last; ++t) {
    family::wait<kStages - 2>();
    __syncwarp();
    const int ahead = t + kStages - 1;
    if (ahead < last) {
      copy_keys(shared.stage[warp][ahead % kStages], 0, next, bytes, scaled, g.status);
    }
    family::commit();
    next = find_key<Stage>(shared.source, key_of(ahead + 1));
    const int key = key_of(t);
    if (t < first || key >= any_hi || key + kKeys <= any_lo) continue;
    attend_step(by_key, a, shared.request, s, rules, rows, shared.stage[warp][t % kStages], q, key, full_lo, full_hi,
                task.v_dim, o, state);
  }
  family::wait<0>();
  __syncwarp();
}

// Tiles [first, last) of the row block, counted over its segments: to o and state of each warp.
inline float attend_tiles(const AttentionCudaArgs& g, DecodeShared& shared, const DecodeTask& task, int first, int last,
                          bool by_key, Output& o, RowState& state) {
  const AttentionArgs& a = g.a;
  float to_log2 = 1;
  clear(o, state);
  int passed = 0;
#pragma unroll 1
  for (int s = 0; s < (kGeneral ? a.spec.segments : 1); ++s) {
    const StepRules rules =
        step_rules(a, s, task.kv_head, kFactors && shared.any_factor != 0 ? shared.factor : nullptr);
    to_log2 = rules.to_log2;
    if (s == 0) state.unit = rules.v_scaled ? 0.0f : rules.v_scale;
    const Interval keys = block_keys(a, shared.request, s, task.block);
    const TileRange tiles = tiles_of(keys);
    const int begin = tiles.first + max(first - passed, 0), end = min(tiles.last, tiles.first + last - passed);
    passed += tiles.count();
    __syncthreads();  // the segment before is done with the source
    if (threadIdx.x == 0) {
      find_source(a, shared.request, s, task.kv_head, task.v_dim, shared.source);
      shared.source.lo = static_cast<int>(keys.lo);
      shared.source.hi = static_cast<int>(keys.hi);
    }
    if (s == 0) family::wait<0>();  // Q
    __syncthreads();
    if (begin < end) run_tiles(by_key, g, shared, task, s, rules, begin, end, o, state);
  }
  return to_log2;
}

// The warps' results of the first `rows` rows to shared memory, O under its own warp's maximum; tops in powers of two.
inline void gather_warps(DecodeShared& shared, int rows, float to_log2, const Output& o, const RowState& state) {
  const int lane = lane_id(), warp = warp_id();
  __syncthreads();  // every warp is done with the stages
#pragma unroll
  for (int i = 0; i < kMTiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float sum = row_sum(state, i, h);
      const int n = i * 16 + fragment_row(lane, h);
      if (n >= rows) continue;
      if (leads_row(lane)) {
        shared.top[warp][n] = state.top[i][h] == minus_infinity() ? minus_infinity() : state.top[i][h] * to_log2;
        shared.sum[warp][n] = sum;
        shared.unit[warp][n] = state.unit;
      }
      for_pairs(o, i, h, [&](int dim, float x, float y) {
        *reinterpret_cast<float2*>(&shared.o[warp][n][dim]) = {x, y};
      });
    }
  }
  __syncthreads();
}

struct WarpParts {
  const DecodeShared& s;
  float top(int k, int r) const { return s.top[k][r]; }
  float sum(int k, int r) const { return s.sum[k][r]; }
  float unit(int k, int r) const { return s.unit[k][r]; }
  float4 o(int k, int r, int dim) const { return *reinterpret_cast<const float4*>(&s.o[k][r][dim]); }
};

inline auto to_out(const AttentionCudaArgs& g, const AttentionRequest& r, const DecodeTask& task) {
  return [&](int n, int dim, float4 value, float top, float sum) {
    store_merged(g, r, task.kv_head, task.block.first + n, task.v_dim, config::d_v, dim, value, top, sum);
  };
}
inline void merge_warps_to_out(const AttentionCudaArgs& g, const DecodeShared& shared, const AttentionRequest& r,
                               const DecodeTask& task) {
  merge_parts<config::d_v, kWarps>(task.block.count, WarpParts{shared}, to_out(g, r, task));
}
inline void merge_warps_to_piece(const Piece& piece, const DecodeShared& shared, const DecodeTask& task) {
  merge_parts<config::d_v, kWarps>(task.block.count, WarpParts{shared},
                                   [&](int n, int dim, float4 value, float top, float sum) {
                                     *reinterpret_cast<float4*>(piece.o(n) + dim) = value;
                                     if (dim == 0) piece.top(n) = top, piece.sum(n) = sum;
                                   });
}

// The row block's tiles [first, last) by all warps, to shared memory. Where V holds NaN or Inf, twice.
inline void attend_and_gather(const AttentionCudaArgs& g, DecodeShared& shared, const DecodeTask& task, int first,
                              int last) {
  Output o;
  RowState state;
  float to_log2;
  bool by_key = false;
#pragma unroll 1
  while (true) {
    to_log2 = attend_tiles(g, shared, task, first, last, by_key, o, state);
    if (by_key || __syncthreads_or(poisoned(o, state)) == 0) break;
    by_key = true;
  }
  gather_warps(shared, task.block.count, to_log2, o, state);
}

// A block's share of the line.
inline i64_t share_of_block(const AttentionCudaArgs& g, i64_t tiles) {
  const i64_t rounded = tiles + g.blocks.divisor - 1;
  if (rounded < i64_t{1} << 31) return divide(static_cast<int>(rounded), g.blocks);
  return rounded / g.blocks.divisor;
}
// Blocks of `per_block` tiles that so many tiles reach into.
inline int count_blocks(int tiles, i64_t per_block) {
  const auto size = static_cast<unsigned>(at_most(per_block, 0x40000000));
  return tiles == 0 ? 0 : static_cast<int>((static_cast<unsigned>(tiles) + size - 1) / size);
}

// The result of `count` of the `tiles` tiles of a row block and unit, from `offset` on: stored, or left as a piece,
// which the last of its blocks merges. Each block leaves two pieces: [0] of what it ends or passes, [1] of what it
// begins.
inline void finish_task(const AttentionCudaArgs& g, DecodeShared& shared, const AttentionRequest& r,
                        const DecodeTask& task, int tiles, int count, int offset, i64_t per_block) {
  if (count == tiles) {
    merge_warps_to_out(g, shared, r, task);
    return;
  }
  const int block = static_cast<int>(blockIdx.x);
  merge_warps_to_piece(piece_at(g, 2 * static_cast<i64_t>(block) + (offset == 0)), shared, task);
  const int before = count_blocks(offset, per_block), after = count_blocks(tiles - offset - count, per_block);
  const int first = block - before, blocks = before + 1 + after;
  __syncthreads();
  if (threadIdx.x == 0) {
    const unsigned arrived = ptx::add_acquire_release(&g.arrived[first], 1u);
    shared.last = arrived + 1 == static_cast<unsigned>(blocks);
    if (shared.last) g.arrived[first] = 0;
  }
  __syncthreads();
  if (!shared.last) return;
  // The first block began it, in its second piece; the others follow, two pieces apart.
  constexpr i64_t kFloats = attention_piece_floats(config::block_rows, config::d_v);
  const Pieces pieces = {piece_at(g, 2 * static_cast<i64_t>(first)).data, 2 * kFloats, kFloats};
  merge_pieces<config::d_v>(task.block.count, blocks, pieces, to_out(g, r, task));
}

inline void decode_even(const AttentionCudaArgs& g, DecodeShared& shared) {
  const AttentionArgs& a = g.a;
  const int kv_heads = a.spec.heads / a.spec.group;
  const int units = kv_heads * ((a.spec.kv[0].d_v + config::d_v - 1) / config::d_v);
  const i64_t total = count_tiles(g, shared) * units;
  const i64_t per_block = at_least(share_of_block(g, total), g.least_tiles);
  const i64_t begin = blockIdx.x * per_block, end = at_most(begin + per_block, total);
  if (begin >= end) return;
  find_sequence(g, shared, begin, units);
  i64_t b = shared.found, before = shared.found_before;  // tiles of the line before the row block `index` of b
  int index = 0;
  bool entered = false;
#pragma unroll 1
  for (i64_t tile = begin; tile < end;) {
    if (!entered) {
      __syncthreads();
      if (threadIdx.x == 0) shared.request = sequence_of(g, b);
      __syncthreads();
      entered = true;
    }
    const AttentionRequest& r = shared.request;
    if (index >= count_row_blocks(g, r)) {
      ++b;
      index = 0;
      entered = false;
      continue;
    }
    DecodeTask task;
    task.block = row_block_of(r, a.spec.group, index);
    const int tiles = tiles_on_line(a, r, task.block);
    if (tile >= before + static_cast<i64_t>(tiles) * units) {
      before += static_cast<i64_t>(tiles) * units;
      ++index;
      continue;
    }
    const int unit = static_cast<int>((tile - before) / tiles), offset = static_cast<int>((tile - before) % tiles);
    const int count = static_cast<int>(at_most(end - tile, tiles - offset));
    task.kv_head = unit % kv_heads;
    task.v_dim = unit / kv_heads * config::d_v;
    __syncthreads();  // merges of the task before are done with shared memory
    start_q(g, shared, task);
    attend_and_gather(g, shared, task, offset, offset + count);
    finish_task(g, shared, r, task, tiles, count, offset, per_block);
    tile += count;
  }
}

inline void decode_fixed(const AttentionCudaArgs& g, DecodeShared& shared) {
  const AttentionArgs& a = g.a;
  const int kv_heads = a.spec.heads / a.spec.group;
  Slot slot;
  if (!find_slot(g, config::block_rows, static_cast<int>(blockIdx.x), slot)) return;
  if (threadIdx.x == 0) shared.request = sequence_of(g, slot.b);
  __syncthreads();
  const AttentionRequest& r = shared.request;
  if (slot.row_block >= count_row_blocks(g, r)) return;
  const DecodeTask task = {row_block_of(r, a.spec.group, slot.row_block), static_cast<int>(blockIdx.y) % kv_heads,
                           static_cast<int>(blockIdx.y) / kv_heads * config::d_v};
  const int splits = count_splits(a, r, task.block, g.split_tiles);
  const i64_t pieces = (blockIdx.x * static_cast<i64_t>(gridDim.y) + blockIdx.y) * g.max_splits;
  for (int split = static_cast<int>(blockIdx.z); split < max(splits, 1); split += static_cast<int>(gridDim.z)) {
    const TileRange tiles = split_tiles(a, r, task.block, g.split_tiles, split);
    __syncthreads();
    start_q(g, shared, task);
    attend_and_gather(g, shared, task, tiles.first, tiles.last);
    if (splits <= 1) {
      merge_warps_to_out(g, shared, r, task);
    } else {
      merge_warps_to_piece(piece_at(g, pieces + split), shared, task);
    }
  }
}

}  // namespace fovea
