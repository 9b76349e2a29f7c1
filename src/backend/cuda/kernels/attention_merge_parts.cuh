// SPDX-License-Identifier: Apache-2.0
// attention: partial results of a row, in the order of their keys, to one.
#pragma once

#include "backend/cuda/kernels/attention_rows.cuh"

namespace fovea {

// The weight of a part under a maximum of all, both in powers of two.
inline float weight_of(float top, float common) {
  return top == minus_infinity() ? 0.0f : ptx::exp2_approx(top - common);
}

// Merges parts 0 .. count - 1, few of them and at hand, of `rows` rows, four dims a thread: part.top(k, row),
// sum(k, row), o(k, row, dim) in multiples of unit(k, row). A part without keys weighs nothing, to the bit.
template <int dims, int count, class Parts, class Put>
inline void merge_parts(int rows, const Parts& part, const Put& put) {
  constexpr int kQuads = dims / 4;
  for (int i = static_cast<int>(threadIdx.x); i < rows * kQuads; i += static_cast<int>(blockDim.x)) {
    const int r = i / kQuads, dim = i % kQuads * 4;
    float top = minus_infinity(), sum = 0;
    float4 value = {0, 0, 0, 0};
#pragma unroll
    for (int k = 0; k < count; ++k) top = fmaxf(top, part.top(k, r));
#pragma unroll
    for (int k = 0; k < count; ++k) {
      const float part_sum = part.sum(k, r);
      if (part_sum == 0) continue;  // NaN may have a weight of zero
      const float weight = weight_of(part.top(k, r), top), scale = weight * part.unit(k, r);
      const float4 o = part.o(k, r, dim);
      sum = __fmaf_rn(part_sum, weight, sum);
      value.x = __fmaf_rn(o.x, scale, value.x);
      value.y = __fmaf_rn(o.y, scale, value.y);
      value.z = __fmaf_rn(o.z, scale, value.z);
      value.w = __fmaf_rn(o.w, scale, value.w);
    }
    put(r, dim, value, top, sum);
  }
}

// Pieces of rows that lie in memory (see attention_piece_floats), `stride` floats from one to the next; the first of
// them `skip` floats further on.
struct Pieces {
  const float* data;
  i64_t stride, skip;
  const float* at(int k) const { return data + k * stride + (k == 0 ? skip : 0); }
  float top(int k, int r) const { return __ldcg(at(k) + config::block_rows * config::d_v + r); }
  float sum(int k, int r) const { return __ldcg(at(k) + config::block_rows * (config::d_v + 1) + r); }
  float4 o(int k, int r, int dim) const {
    return __ldcg(reinterpret_cast<const float4*>(at(k) + r * config::d_v + dim));
  }
};

// Merges `count` pieces of `rows` rows. A warp has a row: lane k weighs piece k, and adds four dims (of each 128) of
// all pieces in their order. Many are asked for at once, and the first ones before their weights are known. Which
// pieces without keys there are changes no bit.
template <int dims, class Put>
inline void merge_pieces(int rows, int count, const Pieces& pieces, const Put& put) {
  constexpr int kQuads = dims / 4, kPasses = (kQuads + 31) / 32, kBatch = 16;
  const int lane = lane_id(), warps = static_cast<int>(blockDim.x) / 32;
#pragma unroll 1
  for (int r = warp_id(); r < rows; r += warps) {
    float4 o[kBatch];
    const auto ask = [&](int first, int dim) {
#pragma unroll
      for (int k = 0; k < kBatch; ++k) {
        o[k] = {0, 0, 0, 0};
        if (first + k < count) o[k] = pieces.o(first + k, r, dim);
      }
    };
    const auto quad_dim = [&](int quad) { return quad < kQuads ? quad * 4 : 0; };
    ask(0, quad_dim(lane));
    float top = minus_infinity(), part_sum = 0;
    if (lane < count) top = pieces.top(lane, r), part_sum = pieces.sum(lane, r);
    float common = top;
    for (int k = 32 + lane; k < count; k += 32) common = fmaxf(common, pieces.top(k, r));
#pragma unroll
    for (int step = 16; step > 0; step /= 2) common = fmaxf(common, __shfl_xor_sync(kAllLanes, common, step));
#pragma unroll
    for (int pass = 0; pass < kPasses; ++pass) {
      const int quad = pass * 32 + lane, dim = quad_dim(quad);
      float sum = 0, weight = weight_of(top, common);
      float4 value = {0, 0, 0, 0};
#pragma unroll 1
      for (int first = 0; first < count; first += kBatch) {
        if (first > 0 || pass > 0) ask(first, dim);
        if (first % 32 == 0 && count > 32) {
          const bool exists = first + lane < count;
          top = exists ? pieces.top(first + lane, r) : minus_infinity();
          part_sum = exists ? pieces.sum(first + lane, r) : 0.0f;
          weight = weight_of(top, common);
        }
        const float weighed = part_sum * weight;
#pragma unroll
        for (int k = 0; k < kBatch; ++k) {
          const float scale = __shfl_sync(kAllLanes, weight, first % 32 + k);
          sum += __shfl_sync(kAllLanes, weighed, first % 32 + k);
          if (scale == 0) continue;
          value.x = __fmaf_rn(o[k].x, scale, value.x);
          value.y = __fmaf_rn(o[k].y, scale, value.y);
          value.z = __fmaf_rn(o[k].z, scale, value.z);
          value.w = __fmaf_rn(o[k].w, scale, value.w);
        }
      }
      if (quad < kQuads) put(r, dim, value, common, sum);
    }
  }
}

// Four dims of a merged row: `dim` of the part that begins at v_dim and has `dims` of them.
inline void store_merged(const AttentionCudaArgs& g, const AttentionRequest& r, int kv_head, int index, int v_dim,
                         int dims, int dim, float4 value, float top, float sum) {
  const AttentionArgs& a = g.a;
  const int exist = min(a.spec.kv[0].d_v - v_dim, dims);
  const Cursor at = cursor_of(g, r, kv_head, index);
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
