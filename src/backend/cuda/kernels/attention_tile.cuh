// SPDX-License-Identifier: Apache-2.0
// attention: the state of a warp's rows and its softmax. The two products are those of the family's fragments.
#pragma once

#include "backend/cuda/kernels/attention_fragments.cuh"
#include "backend/cuda/kernels/attention_rows.cuh"

namespace fovea {

struct RowState {
  float top[kMTiles][2];  // what probabilities are relative to, in the unit of the scores; -inf: no key yet
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

// O += P V where V may hold NaN or Inf at keys that some rows of the tile do not see: a product of zero with those
// must not reach them, so keys of zero probability are left out. Slow; run only where the plain product went wrong.
template <class Stage>
inline void multiply_pv_by_key(Output& o, const Scores& p, const Stage& stage, int v_dim) {
  const int lane = lane_id();
  const char* v = kVInK ? stage.k + v_dim * (kV8 ? 1 : 2) : stage.v;
#pragma unroll 1
  for (int key = 0; key < kKeys; ++key) {
    float weight[kMTiles][2];
#pragma unroll
    for (int i = 0; i < kMTiles; ++i) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float mine = 0;  // of the key's fragment, without an array that is indexed at run time
#pragma unroll
        for (int j = 0; j < kNTiles; ++j) {
#pragma unroll
          for (int e = 0; e < 2; ++e) mine = j * 2 + e == fragment_of_key(key) ? p[i][j][2 * h + e] : mine;
        }
        weight[i][h] = __shfl_sync(kAllLanes, mine, lane_of_key(lane, key));
      }
    }
#pragma unroll
    for (int n = 0; n < kOTiles; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const float x = float_at(v + key * kVStride + o_dim(n, e, lane) * (kV8 ? 1 : 2), kV8 ? Dtype::e4m3 : kKind);
#pragma unroll
        for (int i = 0; i < kMTiles; ++i) {
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            if (weight[i][h] != 0) o[i][n][2 * h + e] = __fmaf_rn(weight[i][h], x, o[i][n][2 * h + e]);
          }
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

// Scores to probabilities, as multiples of 2^top; what was summed before shrinks when a row's top moves. That follows
// the row's maximum in steps of 2^8 or more: probabilities of up to 2^8 are as exact as those below 1, and mostly no
// row has to shrink. `to_log2` takes scores to powers of two. `may_fuse`: the form of the exponentials may depend on
// the other rows of the warp.
inline void softmax(Scores& s, Output& o, RowState& state, float to_log2, bool may_fuse) {
  float shrink[kMTiles][2], largest = 0;
  bool moved = false;
#pragma unroll
  for (int i = 0; i < kMTiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float most = fmaxf(s[i][0][2 * h], s[i][0][2 * h + 1]);
#pragma unroll
      for (int j = 1; j < kNTiles; ++j) most = fmaxf(most, fmaxf(s[i][j][2 * h], s[i][j][2 * h + 1]));
      most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, kRowStep1));
      most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, kRowStep2));
      const float rise = (most - state.top[i][h]) * to_log2;
      const bool moves = rise > 8.0f;
      moved |= moves;
      // Exactly 1 where the top stays: bits must not depend on tiles that a row does not see.
      shrink[i][h] = moves ? ptx::exp2_approx(-rise) : 1.0f;
      if (moves) state.top[i][h] = most;
      largest = fmaxf(largest, fabsf(state.top[i][h]));
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
