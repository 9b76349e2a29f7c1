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

// Sixteen rows of a warp on their way out, where its steps lay before.
struct RowsOut {
  static constexpr int kStride = config::d_v + 8;  // floats: pairs of eight rows fall into different banks
  alignas(16) float o[16 * kStride];
  float factor[16];
  char* to[16];  // null: no such row
};

// What lies in `shared`, of the operands' 16-bit type: rows of whole pieces of 16 bytes.
inline void store_packed(int v_dim, const RowsOut& shared) {
  constexpr int kPieces = config::d_v / 8;
#pragma unroll 4
  for (int n = lane_id(); n < 16 * kPieces; n += 32) {
    const int row = n / kPieces, dim = n % kPieces * 8;
    char* to = shared.to[row];
    const float factor = shared.factor[row];
    const float* from = &shared.o[row * RowsOut::kStride + dim];
    const float4 x = *reinterpret_cast<const float4*>(from), y = *reinterpret_cast<const float4*>(from + 4);
    uint4 packed = {family::pack<kKind>(x.x * factor, x.y * factor), family::pack<kKind>(x.z * factor, x.w * factor),
                    family::pack<kKind>(y.x * factor, y.y * factor), family::pack<kKind>(y.z * factor, y.w * factor)};
    if (factor == 0) packed = {0, 0, 0, 0};  // a row without keys, whatever its accumulators hold
    if (to != nullptr) *reinterpret_cast<uint4*>(to + (v_dim + dim) * 2) = packed;
  }
}
// Of any type, dims below `dims`.
inline void store_unpacked(const AttentionArgs& a, int v_dim, int dims, const RowsOut& shared) {
#pragma unroll 1
  for (int n = lane_id(); n < 16 * config::d_v / 4; n += 32) {
    const int row = n / (config::d_v / 4), dim = n % (config::d_v / 4) * 4;
    char* to = shared.to[row];
    float4 x = *reinterpret_cast<const float4*>(&shared.o[row * RowsOut::kStride + dim]);
    const float factor = shared.factor[row];
    x = {x.x * factor, x.y * factor, x.z * factor, x.w * factor};
    if (factor == 0) x = {0, 0, 0, 0};
    if (to != nullptr) store_four(a, to, v_dim + dim, dims, x);
  }
}

// The rows of a warp, from `first` of the block on, to out and lse.
inline void store_rows(const AttentionCudaArgs& g, const AttentionRequest& r, RowBlock block, int first, int kv_head,
                       int v_dim, float to_log2, Output& o, RowState& state, RowsOut& shared) {
  const AttentionArgs& a = g.a;
  const int lane = lane_id(), dims = min(a.spec.kv[0].d_v, v_dim + config::d_v);
  const bool packed = a.spec.out == kKind && g.out_align >= 16 && dims - v_dim == config::d_v;
#pragma unroll
  for (int i = 0; i < kMTiles; ++i) {
    __syncwarp();
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float sum = row_sum(state, i, h);
      const int row = fragment_row(lane, h), n = first + i * 16 + row;
      if (leads_row(lane)) {
        shared.to[row] = nullptr;
        if (n < block.count) {
          const Cursor at = cursor_of(a, r, kv_head, block.first + n);
          const RowEnd end = end_row(a, at, state.top[i][h] * to_log2, sum);
          if (v_dim == 0) store_lse(a, r, at, end.lse);
          shared.to[row] = out_row(a, r, at);
          shared.factor[row] = end.factor * state.unit;
        }
      }
      for_pairs(o, i, h, [&](int dim, float x, float y) {
        *reinterpret_cast<float2*>(&shared.o[row * RowsOut::kStride + dim]) = {x, y};
      });
    }
    __syncwarp();
    if (packed) {
      store_packed(v_dim, shared);
    } else {
      store_unpacked(a, v_dim, dims, shared);
    }
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
