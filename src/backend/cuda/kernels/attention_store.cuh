// SPDX-License-Identifier: Apache-2.0
// attention: rows of results: to the caller's tensors, or as pieces to scratch.
#pragma once

#include "backend/cuda/kernels/attention_merge_parts.cuh"
#include "backend/cuda/kernels/attention_step.cuh"

namespace fovea {

// Calls put(dim, x, y) for each pair of neighbours that the lane has of row (i, h); dims of the part.
template <class Put>
inline void for_pairs(const Output& o, int i, int h, const Put& put) {
  const int lane = lane_id();
#pragma unroll
  for (int j = 0; j < kOTiles; j += kPairedO ? 2 : 1) {
    if constexpr (kPairedO) {
      put(o_dim(j, 0, lane), o[i][j][2 * h], o[i][j + 1][2 * h]);
      put(o_dim(j, 1, lane), o[i][j][2 * h + 1], o[i][j + 1][2 * h + 1]);
    } else {
      put(o_dim(j, 0, lane), o[i][j][2 * h], o[i][j][2 * h + 1]);
    }
  }
}

// The sum of a row over the four lanes that share it.
inline float row_sum(const RowState& state, int i, int h) {
  float sum = state.sum[i][h];
  sum += __shfl_xor_sync(kAllLanes, sum, kRowStep1);
  return sum + __shfl_xor_sync(kAllLanes, sum, kRowStep2);
}

// What a warp's rows need on their way out. They leave eight at a time, by way of shared memory: where the warp's rows
// of Q lay, if there is room.
constexpr int kOutStride = config::d_v * 4 + 16;  // bytes: rows fall into different banks
constexpr bool kOutInQ = 8 * kOutStride <= kWarpRows * QRows::kStride;
struct RowsOut {
  char* to[kWarpRows];  // null: no such row
  float top[kWarpRows], sum[kWarpRows];
  float factor[kWarpRows];  // before: the row's unit
  alignas(16) char own[kOutInQ ? 16 : 8 * kOutStride];
};

// The ends of the warp's rows: where they go, and what they are multiplied with. False where a row in use has no keys,
// so that its result is zero whatever its accumulators hold.
inline bool end_rows(const AttentionCudaArgs& g, const AttentionRequest& r, RowBlock block, int first, int kv_head,
                     int v_dim, RowsOut& shared) {
  const AttentionArgs& a = g.a;
  bool every = true;
#pragma unroll 1
  for (int n = lane_id(); n < kWarpRows; n += 32) {
    char* to = nullptr;
    if (first + n < block.count) {
      const Cursor at = cursor_of(g, r, kv_head, block.first + first + n);
      const RowEnd end = end_row(a, at, shared.top[n], shared.sum[n]);
      if (v_dim == 0) store_lse(a, r, at, end.lse);
      to = out_row(a, r, at);
      every &= end.factor != 0;
      shared.factor[n] *= end.factor;
    }
    shared.to[n] = to;
  }
  return __all_sync(kAllLanes, every) != 0;
}

// As the operands' 16-bit type, in whole pieces of 16 bytes.
inline void store_packed(int v_dim, const Output& o, RowsOut& shared, char* staging) {
  constexpr int kPieces = config::d_v / 8, kStride = config::d_v * 2 + 16;
  const int lane = lane_id(), slot = fragment_slot(lane);
#pragma unroll
  for (int i = 0; i < kMTiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float factor = shared.factor[i * 16 + row_of_slot(slot, h)];
      for_pairs(o, i, h, [&](int dim, float x, float y) {
        *reinterpret_cast<unsigned*>(staging + slot * kStride + dim * 2) = family::pack<kKind>(x * factor, y * factor);
      });
      __syncwarp();
#pragma unroll 4
      for (int n = lane; n < 8 * kPieces; n += 32) {
        const int row = n / kPieces, dim = n % kPieces * 8;
        char* to = shared.to[i * 16 + row_of_slot(row, h)];
        const uint4 piece = *reinterpret_cast<const uint4*>(staging + row * kStride + dim * 2);
        if (to != nullptr) *reinterpret_cast<uint4*>(to + (v_dim + dim) * 2) = piece;
      }
      __syncwarp();
    }
  }
}
// Of any type, dims below `dims`.
inline void store_unpacked(const AttentionArgs& a, int v_dim, int dims, const Output& o, RowsOut& shared,
                           char* staging) {
  constexpr int kQuads = config::d_v / 4;
  const int lane = lane_id(), slot = fragment_slot(lane);
#pragma unroll
  for (int i = 0; i < kMTiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      for_pairs(o, i, h, [&](int dim, float x, float y) {
        *reinterpret_cast<float2*>(staging + slot * kOutStride + dim * 4) = {x, y};
      });
      __syncwarp();
#pragma unroll 1
      for (int n = lane; n < 8 * kQuads; n += 32) {
        const int row = n / kQuads, dim = n % kQuads * 4, index = i * 16 + row_of_slot(row, h);
        float4 x = *reinterpret_cast<const float4*>(staging + row * kOutStride + dim * 4);
        const float factor = shared.factor[index];
        x = {x.x * factor, x.y * factor, x.z * factor, x.w * factor};
        if (factor == 0) x = {0, 0, 0, 0};
        if (shared.to[index] != nullptr) store_four(a, shared.to[index], v_dim + dim, dims, x);
      }
      __syncwarp();
    }
  }
}

// The rows of a warp, from `first` of the block on, to out and lse. `q`: the block's Q, of which the warp is done with
// its own rows.
inline void store_rows(const AttentionCudaArgs& g, const AttentionRequest& r, RowBlock block, int first, int kv_head,
                       int v_dim, float to_log2, const Output& o, const RowState& state, RowsOut& shared, char* q) {
  const AttentionArgs& a = g.a;
  const int lane = lane_id(), dims = min(a.spec.kv[0].d_v, v_dim + config::d_v);
#pragma unroll
  for (int i = 0; i < kMTiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float sum = row_sum(state, i, h);
      if (!leads_row(lane)) continue;
      const int n = i * 16 + fragment_row(lane, h);
      shared.top[n] = state.top[i][h] * to_log2;
      shared.sum[n] = sum;
      shared.factor[n] = state.unit;
    }
  }
  __syncwarp();
  const bool every = end_rows(g, r, block, first, kv_head, v_dim, shared);
  __syncwarp();
  char* staging = kOutInQ ? q + first * QRows::kStride : shared.own;
  if (every && a.spec.out == kKind && g.out_align >= 16 && dims - v_dim == config::d_v) {
    store_packed(v_dim, o, shared, staging);
  } else {
    store_unpacked(a, v_dim, dims, o, shared, staging);
  }
}

// A piece: [rows][d_v of the part], tops, sums. Rows are those of a block.
struct Piece {
  float* data;
  float* o(int row) const { return data + row * config::d_v; }
  float& top(int row) const { return data[config::block_rows * config::d_v + row]; }
  float& sum(int row) const { return data[config::block_rows * (config::d_v + 1) + row]; }
};
inline Piece piece_at(const AttentionCudaArgs& g, i64_t index) {
  return {g.pieces + index * attention_piece_floats(config::block_rows, config::d_v)};
}
// Of a block of prefill.
inline Piece piece_at(const AttentionCudaArgs& g, SlotUnit at) {
  const i64_t units = static_cast<i64_t>(gridDim.y) * g.together.divisor;
  return piece_at(g, (at.slot * units + at.unit) * g.max_splits + blockIdx.z);
}

inline void store_piece(const Piece& piece, RowBlock block, int first, float to_log2, const Output& o,
                        RowState& state) {
  const int lane = lane_id();
#pragma unroll
  for (int i = 0; i < kMTiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float sum = row_sum(state, i, h);
      const int n = first + i * 16 + fragment_row(lane, h);
      if (n >= block.count) continue;
      if (leads_row(lane)) {
        piece.top(n) = state.top[i][h] == minus_infinity() ? minus_infinity() : state.top[i][h] * to_log2;
        piece.sum(n) = sum;
      }
      for_pairs(o, i, h, [&](int dim, float x, float y) {
        *reinterpret_cast<float2*>(piece.o(n) + dim) = {x * state.unit, y * state.unit};
      });
    }
  }
}

// Went the product with V wrong in a row whose probabilities are sound? Then V holds NaN or Inf at a key of the tiles.
inline bool poisoned(const Output& o, const RowState& state) {
  bool wrong = false;
#pragma unroll
  for (int i = 0; i < kMTiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float worst = 0;
#pragma unroll
      for (int j = 0; j < kOTiles; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) worst = __fmaf_rn(o[i][j][2 * h + e], 0.0f, worst);  // 0, or NaN for ever
      }
      wrong |= worst != 0 && fabsf(state.sum[i][h]) <= 3.4e38f;
    }
  }
  return wrong;
}

}  // namespace fovea
