// SPDX-License-Identifier: Apache-2.0
// attention: the two products and the softmax of a warp, on m16n8 fragments (mma.sync of SM75 and later).
//
// A warp works on kMTiles x 16 rows and kKeys keys at a time. Lane l: quad = l / 4, column = l % 4. Of 16 rows it has
// rows quad and quad + 8 (h = 0, 1), of 8 keys or dims the columns 2 column and 2 column + 1 (e = 0, 1).
#pragma once

#include "backend/cuda/kernels/attention_copy.cuh"
#include "backend/cuda/kernels/attention_rows.cuh"
#include "backend/cuda/kernels/ptx/mma_sm89.cuh"
#include "backend/cuda/kernels/widen.cuh"

namespace fovea {

constexpr int kNTiles = kKeys / 8;
constexpr int kOTiles = config::d_v / 8;
constexpr int kQPart = config::block_rows * QRows::kStride;  // bytes from the first to the second part of Q

using Scores = float[kMTiles][kNTiles][4];
using Output = float[kMTiles][kOTiles][4];
struct RowState {
  float top[kMTiles][2];  // running maximum, in the unit of the scores
  float sum[kMTiles][2];  // of this lane's keys
  float unit;             // O is in multiples of it; 0: nothing was added yet
};

inline void clear(Output& o, RowState& state) {
#pragma unroll
  for (int i = 0; i < kMTiles; ++i) {
#pragma unroll
    for (int j = 0; j < kOTiles; ++j) o[i][j][0] = o[i][j][1] = o[i][j][2] = o[i][j][3] = 0;
    state.top[i][0] = state.top[i][1] = minus_infinity();
    state.sum[i][0] = state.sum[i][1] = 0;
  }
}

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

template <class Rows>
inline void multiply_16bit(Scores& s, unsigned q, unsigned k) {
#pragma unroll
  for (int d = 0; d < Rows::kDims / 16; ++d) {
    QFragments a;
    load_q_fragments(a, q + d * 32);
#pragma unroll
    for (int j = 0; j < kNTiles / 2; ++j) {
      unsigned b[4];
      ptx::load_matrix_x4(b, k + j * 16 * Rows::kStride + d * 32);
      multiply_dims(s, a, j, b);
    }
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
  const unsigned v = (kVInK ? shared_address(stage.k) + v_dim * (kV8 ? 1 : 2) : shared_address(stage.v)) +
                     v_lane_offset(lane_id());
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

// The dim of o[i][j][2 h + e].
inline int o_dim(int j, int e, int column) {
  return kV8 ? j / 2 * 16 + 4 * column + 2 * e + j % 2 : j * 8 + 2 * column + e;
}

// O += P V where V may hold NaN or Inf at keys that some rows of the tile do not see: a product of zero with those
// must not reach them, so keys of zero probability are left out. Slow; run only where the plain product went wrong.
template <class Stage>
inline void multiply_pv_by_key(Output& o, const Scores& p, const Stage& stage, int v_dim) {
  const int lane = lane_id(), column = lane % 4;
  const char* v = kVInK ? stage.k + v_dim * (kV8 ? 1 : 2) : stage.v;
#pragma unroll 1
  for (int key = 0; key < kKeys; ++key) {
    float x[kOTiles][2];
#pragma unroll
    for (int n = 0; n < kOTiles; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const char* at = v + key * kVStride + o_dim(n, e, column) * (kV8 ? 1 : 2);
        x[n][e] = float_at(at, kV8 ? Dtype::e4m3 : kKind);
      }
    }
#pragma unroll
    for (int i = 0; i < kMTiles; ++i) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float mine = 0;  // p[i][key / 8][2 h + key % 2], without an array that is indexed at run time
#pragma unroll
        for (int j = 0; j < kNTiles; ++j) {
#pragma unroll
          for (int e = 0; e < 2; ++e) mine = j * 2 + e == key / 8 * 2 + key % 2 ? p[i][j][2 * h + e] : mine;
        }
        const float weight = __shfl_sync(kAllLanes, mine, lane / 4 * 4 + key % 8 / 2);
        if (weight == 0) continue;
#pragma unroll
        for (int n = 0; n < kOTiles; ++n) {
#pragma unroll
          for (int e = 0; e < 2; ++e) o[i][n][2 * h + e] = __fmaf_rn(weight, x[n][e], o[i][n][2 * h + e]);
        }
      }
    }
  }
}

// Sums of what one row of scores becomes: powers of two of (score - top) * to_log2. The difference first is exact for
// keys near the top, whatever the size of the logits; the fused form is one instruction less.
template <bool fused>
inline float exponentials(Scores& s, int i, int h, float top, float to_log2) {
  const float base = top == minus_infinity() ? 0.0f : top, shift = base * to_log2;
  float sum = 0;
#pragma unroll
  for (int j = 0; j < kNTiles; ++j) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      float& x = s[i][j][2 * h + e];
      x = ptx::exp2_approx(fused ? __fmaf_rn(x, to_log2, -shift) : (x - base) * to_log2);
      sum += x;
    }
  }
  return sum;
}

// Scores to probabilities under the running maximum; what was summed before shrinks with it. `to_log2` takes scores to
// powers of two. O is left alone where no row's maximum moved: the factor would be 1. `may_fuse`: the form of the
// exponentials may depend on the other rows of the warp.
inline void softmax(Scores& s, Output& o, RowState& state, float to_log2, bool may_fuse) {
  float shrink[kMTiles][2], largest = 0;
  bool moved = false;
#pragma unroll
  for (int i = 0; i < kMTiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float top = state.top[i][h];
#pragma unroll
      for (int j = 0; j < kNTiles; ++j) top = fmaxf(top, fmaxf(s[i][j][2 * h], s[i][j][2 * h + 1]));
      top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 1));
      top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 2));
      moved |= top != state.top[i][h];
      // Exactly 1 where the maximum stayed: bits must not depend on tiles that a row does not see.
      shrink[i][h] = top == state.top[i][h] ? 1.0f : ptx::exp2_approx((state.top[i][h] - top) * to_log2);
      state.top[i][h] = top;
      largest = fmaxf(largest, fabsf(top));
    }
  }
  // Below 64 the rounding of the shift is below 2^-18 of a probability.
  if (may_fuse && !__any_sync(kAllLanes, largest * to_log2 >= 64.0f)) {
#pragma unroll
    for (int i = 0; i < kMTiles; ++i) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        state.sum[i][h] =
            __fmaf_rn(state.sum[i][h], shrink[i][h], exponentials<true>(s, i, h, state.top[i][h], to_log2));
      }
    }
  } else {
#pragma unroll
    for (int i = 0; i < kMTiles; ++i) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        state.sum[i][h] =
            __fmaf_rn(state.sum[i][h], shrink[i][h], exponentials<false>(s, i, h, state.top[i][h], to_log2));
      }
    }
  }
  if (!__any_sync(kAllLanes, moved)) return;
#pragma unroll
  for (int i = 0; i < kMTiles; ++i) {
#pragma unroll
    for (int j = 0; j < kOTiles; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) o[i][j][e] *= shrink[i][e / 2];
    }
  }
}

}  // namespace fovea
