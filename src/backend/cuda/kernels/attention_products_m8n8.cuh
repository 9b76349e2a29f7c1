// SPDX-License-Identifier: Apache-2.0
// attention: the two products of a warp on quad-pairs (mma.sync m8n8k4 of SM70). Included by a family's file.
//
// Of 16 rows by 16 keys or dims each quad-pair has a quarter (attention_fragments.cuh). Operands come by plain loads: a
// lane has a row of A, and of B a column (K) or half a row (V). S is no operand of the next product: lanes exchange P.
#pragma once

#include "backend/cuda/kernels/attention_fragments.cuh"
#include "backend/cuda/kernels/ptx/mma_sm70.cuh"
#include "backend/cuda/kernels/widen.cuh"

namespace fovea {

// A lane's row of A, of 16, and its column of B, of 16.
inline int quad_row(int lane) {
  return (lane & 4) * 2 + lane % 4 + (lane & 16) / 4;
}
inline int quad_column(int lane) {
  return (lane & 8) + lane % 4 + (lane & 16) / 4;
}
inline unsigned q_lane_offset(int lane) {
  return quad_row(lane) * QRows::kStride;
}

// 16 values of a row: registers of two.
inline void load_sixteen(unsigned (&r)[8], unsigned from) {
  const uint4 low = *shared_16(from), high = *shared_16(from + 16);
  r[0] = low.x, r[1] = low.y, r[2] = low.z, r[3] = low.w;
  r[4] = high.x, r[5] = high.y, r[6] = high.z, r[7] = high.w;
}
inline void load_sixteen_bytes(unsigned (&r)[8], unsigned from) {
  const uint4 x = *shared_16(from);
  widen_e4m3<kKind>(x.x, r[0], r[1]);
  widen_e4m3<kKind>(x.y, r[2], r[3]);
  widen_e4m3<kKind>(x.z, r[4], r[5]);
  widen_e4m3<kKind>(x.w, r[6], r[7]);
}

// Tiles 2 j and 2 j + 1 as the accumulators of a quad-pair.
struct QuadSums {
  float d[8];
  QuadSums(const float (&low)[4], const float (&high)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) d[i] = low[i], d[4 + i] = high[i];
  }
  void put(float (&low)[4], float (&high)[4]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) low[i] = d[i], high[i] = d[4 + i];
  }
};

// S += Q K^T over rows of Rows.
template <class Rows, bool bytes>
inline void multiply_rows(Scores& s, unsigned q, unsigned k) {
#pragma unroll
  for (int d = 0; d < Rows::kDims / 16; ++d) {
    unsigned a[kParts][kMTiles][8];
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
#pragma unroll
      for (int i = 0; i < kMTiles; ++i) load_sixteen(a[part][i], q + part * kQPart + i * 16 * QRows::kStride + d * 32);
    }
#pragma unroll
    for (int j = 0; j < kNTiles / 2; ++j) {
      unsigned b[8];
      const unsigned from = k + j * 16 * Rows::kStride;
      if constexpr (bytes) {
        load_sixteen_bytes(b, from + d * 16);
      } else {
        load_sixteen(b, from + d * 32);
      }
#pragma unroll
      for (int i = 0; i < kMTiles; ++i) {
        QuadSums sums(s[i][2 * j], s[i][2 * j + 1]);
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
#pragma unroll
          for (int n = 0; n < 4; ++n) {
            const unsigned four[2] = {a[part][i][2 * n], a[part][i][2 * n + 1]};
            ptx::mma_m8n8k4_f16(sums.d, four, b[2 * n], b[2 * n + 1]);
          }
        }
        sums.put(s[i][2 * j], s[i][2 * j + 1]);
      }
    }
  }
}

// S = Q K^T without K's rope part.
template <class Stage>
inline void multiply_qk(Scores& s, unsigned q, const Stage& stage) {
#pragma unroll
  for (int i = 0; i < kMTiles; ++i) {
#pragma unroll
    for (int j = 0; j < kNTiles; ++j) s[i][j][0] = s[i][j][1] = s[i][j][2] = s[i][j][3] = 0;
  }
  multiply_rows<KRows, kK8>(s, q, shared_address(stage.k) + quad_column(lane_id()) * KRows::kStride);
}
// S += Q K^T of the rope part.
template <class Stage>
inline void multiply_rope(Scores& s, unsigned q, const Stage& stage) {
  const unsigned rope = shared_address(stage.rope) + quad_column(lane_id()) * RopeRows::kStride;
  multiply_rows<RopeRows, false>(s, q + config::d_main * 2, rope);
}

// The lane's row of P over 16 keys, from pairs of neighbours [h][j % 2] that each lane has of its rows and columns. In
// one shuffle lanes that differ in bit 1 ask for different pairs, so that whom a lane answers all want the same h.
inline void exchange_probabilities(unsigned (&row)[8], const unsigned (&own)[2][2]) {
  const int lane = lane_id(), bit = lane >> 1 & 1;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int t = 0; t < 2; ++t) {
      unsigned got[2];
#pragma unroll
      for (int s = 0; s < 2; ++s) {
        const unsigned mine = (bit ^ s) != 0 ? own[1][t] : own[0][t];
        got[s] = __shfl_sync(kAllLanes, mine, (lane & ~10) | half << 3 | (bit ^ s) << 1);
      }
      row[4 * half + 2 * t] = bit != 0 ? got[1] : got[0];
      row[4 * half + 2 * t + 1] = bit != 0 ? got[0] : got[1];
    }
  }
}

// O += P V. `v_dim`: the first of the dims of V, where V is part of K.
template <class Stage>
inline void multiply_pv(Output& o, const Scores& p, const Stage& stage, int v_dim) {
  constexpr int kSize = kV8 ? 1 : 2;
  const int lane = lane_id();
  const unsigned v = (kVInK ? shared_address(stage.k) + v_dim * kSize : shared_address(stage.v)) + lane % 4 * kVStride +
                     ((lane & 8) + (lane & 16) / 4) * kSize;
#pragma unroll
  for (int k = 0; k < kNTiles / 2; ++k) {
    unsigned a[kMTiles][8];
#pragma unroll
    for (int i = 0; i < kMTiles; ++i) {
      unsigned own[2][2];
#pragma unroll
      for (int h = 0; h < 2; ++h) {
#pragma unroll
        for (int t = 0; t < 2; ++t) own[h][t] = family::pack<kKind>(p[i][2 * k + t][2 * h], p[i][2 * k + t][2 * h + 1]);
      }
      exchange_probabilities(a[i], own);
    }
#pragma unroll
    for (int j = 0; j < kOTiles / 2; ++j) {
      unsigned b[4][2];
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const void* from = __cvta_shared_to_generic(v + (k * 16 + n * 4) * kVStride + j * 16 * kSize);
        if constexpr (kV8) {
          widen_e4m3<kKind>(*static_cast<const unsigned*>(from), b[n][0], b[n][1]);
        } else {
          const uint2 x = *static_cast<const uint2*>(from);
          b[n][0] = x.x, b[n][1] = x.y;
        }
      }
#pragma unroll
      for (int i = 0; i < kMTiles; ++i) {
        QuadSums sums(o[i][2 * j], o[i][2 * j + 1]);
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          const unsigned four[2] = {a[i][2 * n], a[i][2 * n + 1]};
          ptx::mma_m8n8k4_f16_row(sums.d, four, b[n][0], b[n][1]);
        }
        sums.put(o[i][2 * j], o[i][2 * j + 1]);
      }
    }
  }
}

}  // namespace fovea
