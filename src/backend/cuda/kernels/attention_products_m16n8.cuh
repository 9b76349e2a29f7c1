// SPDX-License-Identifier: Apache-2.0
// attention: the two products of a warp on m16n8 fragments (mma.sync of SM75 and later). Included by a family's file.
#pragma once

#include "backend/cuda/kernels/attention_fragments.cuh"
#include "backend/cuda/kernels/ptx/ldmatrix.cuh"
#include "backend/cuda/kernels/ptx/mma_sm89.cuh"
#include "backend/cuda/kernels/widen.cuh"

namespace fovea {

// Shared offsets that a lane reads fragments from: A rows of Q, B rows of K (keys 16 at a time), transposed V.
inline unsigned q_lane_offset(int lane) {
  return lane % 16 * QRows::kStride + lane / 16 * 16;
}
template <int stride>
inline unsigned k_lane_offset(int lane) {
  return (lane % 8 + lane / 16 * 8) * stride + lane / 8 % 2 * 16;
}
inline unsigned v_lane_offset(int lane) {
  return lane % 16 * kVStride + lane / 16 * 16;
}

// The parts of Q over 16 dims.
struct QFragments {
  unsigned a[kParts][kMTiles][4];
};
inline void load_q_fragments(QFragments& f, unsigned q) {
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
#pragma unroll
    for (int i = 0; i < kMTiles; ++i) ptx::load_matrix_x4(f.a[part][i], q + part * kQPart + i * 16 * QRows::kStride);
  }
}
// s += Q K^T over these 16 dims, of 16 keys with fragments b.
inline void multiply_dims(Scores& s, const QFragments& q, int j, const unsigned (&b)[4]) {
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
#pragma unroll
    for (int i = 0; i < kMTiles; ++i) {
      family::mma<kKind>(s[i][2 * j], q.a[part][i], b[0], b[1]);
      family::mma<kKind>(s[i][2 * j + 1], q.a[part][i], b[2], b[3]);
    }
  }
}

// Fragments of K are asked for one product before they are multiplied, those of Q one round of K's before.
template <class Rows>
inline void multiply_16bit(Scores& s, unsigned q, unsigned k) {
  constexpr int kTiles = kNTiles / 2, kCount = Rows::kDims / 16 * kTiles;
  QFragments a[2];
  unsigned b[2][4];
  const auto load_k = [&](int n) {
    ptx::load_matrix_x4(b[n % 2], k + n % kTiles * 16 * Rows::kStride + n / kTiles * 32);
  };
  load_q_fragments(a[0], q);
  load_k(0);
#pragma unroll
  for (int n = 0; n < kCount; ++n) {
    const int d = n / kTiles;
    if (n % kTiles == 0 && d + 1 < Rows::kDims / 16) load_q_fragments(a[(d + 1) % 2], q + (d + 1) * 32);
    if (n + 1 < kCount) load_k(n + 1);
    multiply_dims(s, a[d % 2], n % kTiles, b[n % 2]);
  }
}

// Rows of bytes: a matrix of 8 keys x 16 bytes holds 16 dims; four of them in a register are dims 4 column ..
// 4 column + 3. Q's dims were put into the same order.
inline void multiply_8bit(Scores& s, unsigned q, unsigned k) {
#pragma unroll
  for (int d = 0; d < KRows::kDims / 32; ++d) {
    QFragments low, high;
    load_q_fragments(low, q + d * 64);
    load_q_fragments(high, q + d * 64 + 32);
#pragma unroll
    for (int j = 0; j < kNTiles / 2; ++j) {
      unsigned raw[4], b[4];
      ptx::load_matrix_x4(raw, k + j * 16 * KRows::kStride + d * 32);
      widen_e4m3<kKind>(raw[0], b[0], b[1]);
      widen_e4m3<kKind>(raw[2], b[2], b[3]);
      multiply_dims(s, low, j, b);
      widen_e4m3<kKind>(raw[1], b[0], b[1]);
      widen_e4m3<kKind>(raw[3], b[2], b[3]);
      multiply_dims(s, high, j, b);
    }
  }
}

// Rows of bytes on both sides, 32 dims at a time: the matrices of 16 bytes are those of products of bytes.
template <class Rows>
inline void multiply_bytes(Scores& s, unsigned q, unsigned k) {
#pragma unroll
  for (int d = 0; d < Rows::kDims / 32; ++d) {
    QFragments a;
    load_q_fragments(a, q + d * 32);
#pragma unroll
    for (int j = 0; j < kNTiles / 2; ++j) {
      unsigned b[4];
      ptx::load_matrix_x4(b, k + j * 16 * Rows::kStride + d * 32);
#pragma unroll
      for (int i = 0; i < kMTiles; ++i) {
        ptx::mma_m16n8k32_e4m3(s[i][2 * j], a.a[0][i], b[0], b[1]);
        ptx::mma_m16n8k32_e4m3(s[i][2 * j + 1], a.a[0][i], b[2], b[3]);
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
  const unsigned k = shared_address(stage.k) + k_lane_offset<KRows::kStride>(lane_id());
  if constexpr (kQ8) {
    multiply_bytes<KRows>(s, q, k);
  } else if constexpr (kK8) {
    multiply_8bit(s, q, k);
  } else {
    multiply_16bit<KRows>(s, q, k);
  }
}
// S += Q K^T of the rope part.
template <class Stage>
inline void multiply_rope(Scores& s, unsigned q, const Stage& stage) {
  const unsigned rope = shared_address(stage.rope) + k_lane_offset<RopeRows::kStride>(lane_id());
  multiply_16bit<RopeRows>(s, q + config::d_main * 2, rope);
}

// O += P V. `v_dim`: the first of the dims of V, where V is part of K.
template <class Stage>
inline void multiply_pv(Output& o, const Scores& p, const Stage& stage, int v_dim) {
  const unsigned v =
      (kVInK ? shared_address(stage.k) + v_dim * (kV8 ? 1 : 2) : shared_address(stage.v)) + v_lane_offset(lane_id());
#pragma unroll
  for (int k = 0; k < kNTiles / 2; ++k) {
    unsigned pf[kMTiles][4];
#pragma unroll
    for (int i = 0; i < kMTiles; ++i) {
      pf[i][0] = family::pack<kKind>(p[i][2 * k][0], p[i][2 * k][1]);
      pf[i][1] = family::pack<kKind>(p[i][2 * k][2], p[i][2 * k][3]);
      pf[i][2] = family::pack<kKind>(p[i][2 * k + 1][0], p[i][2 * k + 1][1]);
      pf[i][3] = family::pack<kKind>(p[i][2 * k + 1][2], p[i][2 * k + 1][3]);
    }
    const unsigned row = v + k * 16 * kVStride;
    if constexpr (kV8) {
      // Transposed pairs of bytes: keys 2 column, 2 column + 1 of dims 2 quad and 2 quad + 1. Even dims go to one
      // column of fragments, odd ones to the next: see o_dim.
#pragma unroll
      for (int j = 0; j < kOTiles / 4; ++j) {
        unsigned raw[4];
        ptx::load_matrix_x4_transposed(raw, row + j * 32);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          unsigned even[2], odd[2];
          widen_e4m3<kKind>(__byte_perm(raw[2 * half], raw[2 * half + 1], 0x6420), even[0], even[1]);
          widen_e4m3<kKind>(__byte_perm(raw[2 * half], raw[2 * half + 1], 0x7531), odd[0], odd[1]);
#pragma unroll
          for (int i = 0; i < kMTiles; ++i) {
            family::mma<kKind>(o[i][4 * j + 2 * half], pf[i], even[0], even[1]);
            family::mma<kKind>(o[i][4 * j + 2 * half + 1], pf[i], odd[0], odd[1]);
          }
        }
      }
    } else {
#pragma unroll
      for (int j = 0; j < kOTiles / 2; ++j) {
        unsigned vf[4];
        ptx::load_matrix_x4_transposed(vf, row + j * 32);
#pragma unroll
        for (int i = 0; i < kMTiles; ++i) {
          family::mma<kKind>(o[i][2 * j], pf[i], vf[0], vf[1]);
          family::mma<kKind>(o[i][2 * j + 1], pf[i], vf[2], vf[3]);
        }
      }
    }
  }
}

}  // namespace fovea
