// SPDX-License-Identifier: Apache-2.0
// attention: partial results of a row, in the order of their keys, to one.
#pragma once

#include "backend/cuda/kernels/attention_rows.cuh"

namespace fovea {

// The weight of a part under a maximum of all, both in powers of two.
inline float weight_of(float top, float common) {
  return top == minus_infinity() ? 0.0f : ptx::exp2_approx(top - common);
}

// Merges parts 0 .. count - 1 of `rows` rows, four dims a thread: part.top(k, row), sum(k, row), o(k, row, dim).
// Parts::kBatch of them are asked for at once, so that one wait serves all. A part without keys weighs nothing, to the
// bit.
template <int dims, class Parts, class Put>
inline void merge_parts(int rows, int count, const Parts& part, const Put& put) {
  constexpr int kQuads = dims / 4, kBatch = Parts::kBatch;
  for (int i = static_cast<int>(threadIdx.x); i < rows * kQuads; i += static_cast<int>(blockDim.x)) {
    const int r = i / kQuads, dim = i % kQuads * 4;
    float top = minus_infinity(), sum = 0;
    float4 value = {0, 0, 0, 0};
#pragma unroll 1
    for (int first = 0; first < count; first += kBatch) {
      float tops[kBatch], sums[kBatch], common = top;
      float4 o[kBatch];
#pragma unroll
      for (int k = 0; k < kBatch; ++k) {
        tops[k] = minus_infinity(), sums[k] = 0, o[k] = {0, 0, 0, 0};
        if (first + k >= count) continue;
        tops[k] = part.top(first + k, r);
        sums[k] = part.sum(first + k, r);
        o[k] = part.o(first + k, r, dim);
      }
#pragma unroll
      for (int k = 0; k < kBatch; ++k) common = fmaxf(common, tops[k]);
      const float shrink = weight_of(top, common);  // of what was merged before: 1 where its maximum stays
      top = common;
      sum *= shrink;
      value = {value.x * shrink, value.y * shrink, value.z * shrink, value.w * shrink};
#pragma unroll
      for (int k = 0; k < kBatch; ++k) {
        if (sums[k] == 0) continue;
        const float weight = weight_of(tops[k], top);
        sum = __fmaf_rn(sums[k], weight, sum);
        value.x = __fmaf_rn(o[k].x, weight, value.x);
        value.y = __fmaf_rn(o[k].y, weight, value.y);
        value.z = __fmaf_rn(o[k].z, weight, value.z);
        value.w = __fmaf_rn(o[k].w, weight, value.w);
      }
    }
    put(r, dim, value, top, sum);
  }
}

// Four dims of a merged row: `dim` of the part that begins at v_dim and has `dims` of them.
inline void store_merged(const AttentionCudaArgs& g, const AttentionRequest& r, int kv_head, int index, int v_dim,
                         int dims, int dim, float4 value, float top, float sum) {
  const AttentionArgs& a = g.a;
  const int exist = min(a.spec.kv[0].d_v - v_dim, dims);
  const Cursor at = cursor_of(a, r, kv_head, index);
  const RowEnd end = end_row(a, at, top, sum);
  if (dim == 0 && v_dim == 0) store_lse(a, r, at, end.lse);
  const float factor = end.factor;
  value = {value.x * factor, value.y * factor, value.z * factor, value.w * factor};
  if (sum == 0) value = {0, 0, 0, 0};
  store_four(a, out_row(a, r, at), v_dim + dim, v_dim + exist, value);
}

// Cut fixed: splits of a row block, segment by segment, at multiples of `size` tiles.
inline int count_splits(const AttentionArgs& a, const AttentionRequest& r, RowBlock block, int size) {
  int splits = 0;
#pragma unroll 1
  for (int s = 0; s < a.spec.segments; ++s) {
    const TileRange tiles = tiles_of(block_keys(a, r, s, block));
    if (tiles.count() > 0) splits += (tiles.last - 1) / size - tiles.first / size + 1;
  }
  return splits;
}
// The tiles of split `index`, counted from the row block's first.
inline TileRange split_tiles(const AttentionArgs& a, const AttentionRequest& r, RowBlock block, int size, int index) {
  int passed = 0;
#pragma unroll 1
  for (int s = 0; s < a.spec.segments; ++s) {
    const TileRange tiles = tiles_of(block_keys(a, r, s, block));
    if (tiles.count() == 0) continue;
    const int here = (tiles.last - 1) / size - tiles.first / size + 1;
    if (index < here) {
      const int begin = (tiles.first / size + index) * size;
      return {passed + max(begin - tiles.first, 0), passed + min(begin + size, tiles.last) - tiles.first};
    }
    index -= here;
    passed += tiles.count();
  }
  return {};
}

}  // namespace fovea
