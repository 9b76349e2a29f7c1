// SPDX-License-Identifier: Apache-2.0
// attention, few rows: one block has every row of a sequence and kv head; its warps take keys, 16 of each tile of 64.
//
//   grid    x: as many blocks as run at once. The tiles of all sequences and kv heads form one line, sequence by
//   sequence and
//              head by head; each block takes an equal piece of it, so ragged lengths leave no block idle.
//   shared  Q [kBlockRows][kDk + 8] | kWarps x kStages x { K [16][kDk + 8] | V [16][kDv + 8] } | BlockWork | warp
//   results order   each warp for itself: wait for its oldest stage, start a copy, S = Q K^T, softmax, O += P V pieces
//   a sequence and head that begins in one block and ends in another leaves an f32 partial result per block; the last
//           of these blocks to finish merges them in order of keys.
#pragma once

#include "attention_tile_sm80.cuh"

namespace fovea {

static_assert(kBlockRows == kMTiles * 16 && kKeys == 16 && kWarps * kKeys == kTileKeys);

struct WarpStage {
  alignas(16) char k[kKeys * KRows::kStride];
  alignas(16) char v[kKeys * VRows::kStride];
};

struct DecodeShared {
  alignas(128) char q[kBlockRows * KRows::kStride];
  union {
    WarpStage stage[kWarps][kStages];
    alignas(16) float o[kWarps][kBlockRows][kDv];
  };
  BlockWork work;
  int scratch[2][kWarps];
  float top[kWarps][kBlockRows];
  float sum[kWarps][kBlockRows];
  i64_t warp_tiles[kWarps];
  i64_t found_before;  // tiles before the sequence that holds the piece's first tile
  i64_t found;
  int last;
};

// Partial result of the rows of one sequence and kv head: unnormalised, under its own maximum.
struct Piece {
  alignas(16) float o[kBlockRows][kDv];
  float top[kBlockRows];  // in powers of two
  float sum[kBlockRows];
};

inline int sequence_tiles(const AttentionArgs& a, const AttentionRequest& r) {
  if (r.tokens == 0) return 0;
  int tiles = 0;
  for (int s = 0; s < a.spec.segments; ++s) tiles += tiles_of(visible_keys(a, r, s, 0, r.tokens - 1));
  return max(tiles, 1);  // rows without a key still get their result
}

// Sum over the block of each thread's value; `before` is the sum of the threads before.
inline i64_t block_scan(DecodeShared& shared, i64_t value, i64_t& before) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  i64_t sum = value;
  for (int step = 1; step < 32; step *= 2) {
    const i64_t other = __shfl_up_sync(kAllLanes, sum, step);
    if (lane >= step) sum += other;
  }
  __syncthreads();
  if (lane == 31) shared.warp_tiles[warp] = sum;
  __syncthreads();
  i64_t total = 0;
  before = sum - value;
  for (int i = 0; i < kWarps; ++i) {
    if (i < warp) before += shared.warp_tiles[i];
    total += shared.warp_tiles[i];
  }
  return total;
}

// Tiles per kv head over all sequences.
inline i64_t count_tiles(const AttentionArgs& a, DecodeShared& shared) {
  i64_t mine = 0, before = 0;
  for (i64_t b = threadIdx.x; b < a.spec.batch; b += kThreads) mine += sequence_tiles(a, attention_request(a, b));
  return block_scan(shared, mine, before);
}

// The sequence that holds tile `tile` of the line, in shared.found; tiles of all heads before it in
// shared.found_before.
inline void find_sequence(const AttentionArgs& a, DecodeShared& shared, i64_t tile, int kv_heads) {
  i64_t passed = 0;
  for (i64_t first = 0; first < a.spec.batch; first += kThreads) {
    const i64_t b = first + threadIdx.x;
    const i64_t tiles = b < a.spec.batch ? sequence_tiles(a, attention_request(a, b)) : 0;
    i64_t before;
    const i64_t total = block_scan(shared, tiles, before);
    const i64_t begin = (passed + before) * kv_heads;
    if (tile >= begin && tile < begin + tiles * kv_heads) {
      shared.found = b;
      shared.found_before = begin;
    }
    passed += total;
    if (passed * kv_heads > tile) break;
  }
  __syncthreads();
}

inline void load_decode_q(const AttentionArgs& a, DecodeShared& shared) {
  const BlockWork& w = shared.work;
  const int group = a.spec.group;
  for (int i = threadIdx.x; i < kBlockRows * KRows::kChunks; i += kThreads) {
    const int r = i / KRows::kChunks, chunk = i % KRows::kChunks;
    const bool inside = r < w.rows && chunk * 8 < kDk;
    const char* from =
        inside ? row(a.q, w.request.batch_row, w.request.first + r / group, w.kv_head * group + r % group) : nullptr;
    ptx::copy_async_16(ptx::shared_address(shared.q) + r * KRows::kStride + chunk * 16, from + chunk * 16,
                       inside ? 16 : 0);
  }
  ptx::copy_async_commit();
}

// Lane l has the address of key l % 16 of the warp's share of a tile: of K below lane 16, of V above.
inline u64_t lane_address(const BlockWork& w, int tile) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  return reinterpret_cast<u64_t>(key_address(w, lane >= 16, tile * kTileKeys + warp * kKeys + lane % 16));
}

template <class Rows, int dims>
inline void copy_warp_rows(unsigned to, u64_t address, int first_lane) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < kKeys * Rows::kChunks; i += 32) {
    const int key = (i + lane) / Rows::kChunks, chunk = (i + lane) % Rows::kChunks;
    const u64_t from = __shfl_sync(kAllLanes, address, first_lane + min(key, kKeys - 1));
    const bool inside = from != 0 && chunk * 8 < dims;
    if (key < kKeys) {
      ptx::copy_async_16(to + key * Rows::kStride + chunk * 16, reinterpret_cast<const char*>(from) + chunk * 16,
                         inside ? 16 : 0);
    }
  }
}

inline void copy_warp_tile(DecodeShared& shared, int tile, u64_t address) {
  WarpStage& to = shared.stage[threadIdx.x / 32][tile % kStages];
  copy_warp_rows<KRows, kDk>(ptx::shared_address(to.k), address, 0);
  copy_warp_rows<VRows, kDv>(ptx::shared_address(to.v), address, 16);
}

// Tiles [first, last) of the segment that was entered.
inline void run_tiles(const AttentionArgs& a, DecodeShared& shared, int first, int last, Output& o, RowState& state) {
  const BlockWork& w = shared.work;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const float to_log2 = a.spec.scale * kLog2e;
  const unsigned q = ptx::shared_address(shared.q) + q_lane_offset(lane);
  u64_t next = lane_address(w, first);
#pragma unroll 1
  for (int t = first; t < first + kStages - 1; ++t) {
    if (t < last) copy_warp_tile(shared, t, next);
    ptx::copy_async_commit();
    next = lane_address(w, t + 1);
  }
#pragma unroll 1
  for (int t = first; t < last; ++t) {
    ptx::copy_async_wait<kStages - 2>();
    __syncwarp();
    if (t + kStages - 1 < last) copy_warp_tile(shared, t + kStages - 1, next);
    ptx::copy_async_commit();
    next = lane_address(w, t + kStages);
    const WarpStage& stage = shared.stage[warp][t % kStages];
    Scores scores;
    multiply_qk(scores, q, ptx::shared_address(stage.k) + k_lane_offset(lane));
    const int key = t * kTileKeys + warp * kKeys;
    if (key < w.full_lo || key + kKeys > w.full_hi) mask_scores(w, scores, lane / 4, key + lane % 4 * 2);
    softmax(scores, o, state, to_log2);
    multiply_pv(o, scores, ptx::shared_address(stage.v) + v_lane_offset(lane));
  }
  ptx::copy_async_wait<0>();
}

// The warps' results to shared memory, O under its own warp's maximum; top in powers of two.
inline void gather_warps(const AttentionArgs& a, DecodeShared& shared, const Output& o, const RowState& state) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, column = lane % 4;
  const float to_log2 = a.spec.scale * kLog2e;
  __syncthreads();  // every warp is done with the stages
#pragma unroll
  for (int i = 0; i < kMTiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float sum = state.sum[i][h];
      sum += __shfl_xor_sync(kAllLanes, sum, 1);
      sum += __shfl_xor_sync(kAllLanes, sum, 2);
      const int r = i * 16 + h * 8 + lane / 4;
      if (column == 0) {
        shared.top[warp][r] = state.top[i][h] * to_log2;
        shared.sum[warp][r] = sum;
      }
#pragma unroll
      for (int j = 0; j < kOTiles; ++j) {
        const int dim = j * 8 + column * 2;
        if (dim < kDv) {
          shared.o[warp][r][dim] = o[i][j][2 * h];
          shared.o[warp][r][dim + 1] = o[i][j][2 * h + 1];
        }
      }
    }
  }
  __syncthreads();
}

inline float shrink_to(float top, float common) {
  return top == minus_infinity() ? 0.0f : ptx::exp2_approx(top - common);
}

inline void store_quad(const AttentionArgs& a, const BlockWork& w, int r, int dim, float4 value, float top, float sum) {
  const int group = a.spec.group;
  const i64_t token = w.request.first + r / group;
  const int head = w.kv_head * group + r % group;
  const float inverse = sum > 0 ? 1.0f / sum : 0.0f;
  uint2 packed = {pack(value.x * inverse, value.y * inverse), pack(value.z * inverse, value.w * inverse)};
  *reinterpret_cast<uint2*>(row(a.out, w.request.batch_row, token, head) + dim * 2) = packed;
  if (dim == 0 && a.lse.given()) {
    *reinterpret_cast<float*>(row(a.lse, w.request.batch_row, token, head)) =
        sum > 0 ? kLn2 * (top + ptx::log2_approx(sum)) : minus_infinity();
  }
}

// Results of `count` parts to one, four dims a thread.
template <class Part, class Put>
inline void merge_parts(const BlockWork& w, int count, const Part& part, const Put& put) {
  constexpr int kQuads = kDv / 4;
  for (int i = threadIdx.x; i < w.rows * kQuads; i += kThreads) {
    const int r = i / kQuads, dim = i % kQuads * 4;
    float top = minus_infinity(), sum = 0;
    float4 value = {0, 0, 0, 0};
#pragma unroll 8
    for (int k = 0; k < count; ++k) top = fmaxf(top, part.top(k, r));
#pragma unroll 8
    for (int k = 0; k < count; ++k) {
      const float weight = shrink_to(part.top(k, r), top);
      const float4 o = part.o(k, r, dim);
      sum = __fmaf_rn(part.sum(k, r), weight, sum);
      value.x = __fmaf_rn(o.x, weight, value.x);
      value.y = __fmaf_rn(o.y, weight, value.y);
      value.z = __fmaf_rn(o.z, weight, value.z);
      value.w = __fmaf_rn(o.w, weight, value.w);
    }
    put(r, dim, value, top, sum);
  }
}

struct WarpParts {
  const DecodeShared& s;
  float top(int k, int r) const { return s.top[k][r]; }
  float sum(int k, int r) const { return s.sum[k][r]; }
  float4 o(int k, int r, int dim) const { return *reinterpret_cast<const float4*>(&s.o[k][r][dim]); }
};
struct PieceParts {
  const Piece* pieces;  // two per block: [0] what it ends or passes, [1] what it begins
  i64_t first;          // block that began
  const Piece& at(int k) const { return pieces[2 * (first + k) + (k == 0)]; }
  float top(int k, int r) const { return __ldcg(&at(k).top[r]); }
  float sum(int k, int r) const { return __ldcg(&at(k).sum[r]); }
  float4 o(int k, int r, int dim) const { return __ldcg(reinterpret_cast<const float4*>(&at(k).o[r][dim])); }
};

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    attention_decode_sm80(const __grid_constant__ AttentionArgs a, Piece* pieces, unsigned* arrived, int least_tiles) {
  extern __shared__ char shared_bytes[];
  DecodeShared& shared = *reinterpret_cast<DecodeShared*>(shared_bytes);
  BlockWork& w = shared.work;
  const int kv_heads = a.spec.heads / a.spec.group;
  const i64_t total = count_tiles(a, shared) * kv_heads;
  const i64_t per_block = at_least((total + gridDim.x - 1) / gridDim.x, least_tiles);
  const i64_t begin = blockIdx.x * per_block, end = at_most(begin + per_block, total);
  if (begin >= end) return;
  find_sequence(a, shared, begin, kv_heads);
  i64_t b = shared.found, before = shared.found_before;

#pragma unroll 1
  for (i64_t tile = begin; tile < end;) {
    if (threadIdx.x == 0) w.request = attention_request(a, b);
    __syncthreads();
    const int tiles = sequence_tiles(a, w.request);
    if (tile >= before + static_cast<i64_t>(tiles) * kv_heads) {
      before += static_cast<i64_t>(tiles) * kv_heads;
      ++b;
      __syncthreads();
      continue;
    }
    const int head = static_cast<int>((tile - before) / tiles), offset = static_cast<int>((tile - before) % tiles);
    const int count = static_cast<int>(at_most(end - tile, tiles - offset));
    if (threadIdx.x == 0) {
      w.kv_head = head;
      w.first_row = 0;
      w.rows = static_cast<int>(w.request.tokens) * a.spec.group;
    }
    __syncthreads();
    load_decode_q(a, shared);
    Output o;
    RowState state;
#pragma unroll
    for (int i = 0; i < kMTiles; ++i) {
#pragma unroll
      for (int j = 0; j < kOTiles; ++j) o[i][j][0] = o[i][j][1] = o[i][j][2] = o[i][j][3] = 0;
      state.top[i][0] = state.top[i][1] = minus_infinity();
      state.sum[i][0] = state.sum[i][1] = 0;
    }
    int passed = 0;  // tiles of the segments before
    for (int s = 0; s < a.spec.segments; ++s) {
      enter_segment(a, w, s, shared.scratch);
      const int own = w.lo < w.hi ? (w.hi + kTileKeys - 1) / kTileKeys : 0;
      const int first = max(offset - passed, 0), last = min(offset + count - passed, own);
      if (s == 0) {
        ptx::copy_async_wait<0>();
        __syncthreads();
      }
      if (first < last) run_tiles(a, shared, first, last, o, state);
      passed += own;
    }
    gather_warps(a, shared, o, state);
    if (count == tiles) {
      merge_parts(w, kWarps, WarpParts{shared}, [&](int r, int dim, float4 value, float top, float sum) {
        store_quad(a, w, r, dim, value, top, sum);
      });
    } else {
      Piece& piece = pieces[2 * blockIdx.x + (offset == 0)];
      merge_parts(w, kWarps, WarpParts{shared}, [&](int r, int dim, float4 value, float top, float sum) {
        *reinterpret_cast<float4*>(&piece.o[r][dim]) = value;
        if (dim == 0) {
          piece.top[r] = top;
          piece.sum[r] = sum;
        }
      });
      const i64_t first_tile = tile - offset;
      const i64_t first_block = first_tile / per_block, blocks = (first_tile + tiles - 1) / per_block - first_block + 1;
      __threadfence();
      __syncthreads();
      if (threadIdx.x == 0) {
        const unsigned before_me = atomicAdd(&arrived[first_block], 1u);
        shared.last = before_me == blocks - 1;
        if (shared.last) arrived[first_block] = 0;
        __threadfence();
      }
      __syncthreads();
      if (shared.last) {
        merge_parts(
            w, static_cast<int>(blocks), PieceParts{pieces, first_block},
            [&](int r, int dim, float4 value, float top, float sum) { store_quad(a, w, r, dim, value, top, sum); });
      }
    }
    __syncthreads();
    tile += count;
  }
}

}  // namespace fovea
