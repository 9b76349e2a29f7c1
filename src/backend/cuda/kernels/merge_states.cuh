// SPDX-License-Identifier: Apache-2.0
// Merging of partial attention outputs, row by row:
//
//   M = max lse_i;   s = sum e^(lse_i - M) (+ e^(sink - M));   out = sum e^(lse_i - M) / s * out_i;   lse = M + ln s
//
// Weights are made in f64 and rounded once, so that one live part has weight 1 exactly; the sum over parts is f32, in
// their order. Parts of lse -inf are not read. A lane reads its elements of every part before it writes them: out may
// be one of the parts.
//
// Grid: as many blocks as rows need, or fewer that walk. Block: 256 threads. A row belongs to 8, 16 or 32 lanes of a
// warp; lane l weighs the parts l, l + lanes, ... and merges the chunks of eight elements l, l + lanes, ... Where rows
// are not aligned or parts differ in type, elements go one by one: the same sums.
//
// Constant: `parts`, the capacity of the parameter block, 32 or 64. Types are run-time switches.
// Shared memory, bytes: weights 32 * parts * 8.
#pragma once

#include "backend/cuda/kernels/grid_start.cuh"
#include "backend/cuda/kernels/rows.cuh"
#include "shared/params/merge_states.h"

namespace fovea {

using MergeArgs = MergeStatesBlock<config::parts>;

enum : int {
  kMergeThreads = 256,
  kMostRows = kMergeThreads / 8,  // of a block
  kAhead = 4                      // parts whose loads are in flight together
};

// Of one part of one row: its lse, then its term of the sum, then its weight. 0 where it is empty.
union PartWeight {
  double term;
  float weight;
};

struct MergeRow {
  i64_t batch;
  i64_t token;
  i64_t head;
};

inline char* address_of(const MergeTensor& t, const MergeRow& r) {
  return t.data + r.batch * t.batch_stride + r.token * t.token_stride + r.head * t.head_stride;
}

inline MergeRow merge_row(const MergeArgs& a, i64_t row) {
  if (a.rows <= 0x7FFFFFFF) {  // two divisions of 64 bits would cost more than a short row
    const u32_t r = static_cast<u32_t>(row), heads = static_cast<u32_t>(a.heads), tokens = static_cast<u32_t>(a.tokens);
    const u32_t token = r / heads, batch = token / tokens;
    return {batch, token - batch * tokens, r - token * heads};
  }
  const i64_t token = row / a.heads, batch = token / a.tokens;
  return {batch, token - batch * a.tokens, row - token * a.heads};
}

// The lanes of one row. Rows of a warp part ways, so each names its own lanes.
struct Group {
  int lanes;
  int lane;
  u32_t mask;  // of the warp's lanes

  template <class T>
  T across(T x, int step) const {
    return __shfl_xor_sync(mask, x, step);
  }
};

constexpr float minus_infinity() {
  return float_of_bits(0xFF800000u);
}

struct Weights {
  const PartWeight* of;  // [parts], shared
  u64_t live;            // bit p: part p is not empty
  float lse;
};

// `mine`: the row's weights. A lane touches those of its own parts until the end.
inline Weights weigh(const MergeArgs& a, const MergeRow& r, const Group& group, PartWeight* mine) {
  const float none = minus_infinity();
  const float sink = a.sinks != nullptr ? a.sinks[r.head * a.sinks_stride] : none;
  double most = sink;
  u64_t live = 0;
#pragma unroll 1
  for (int p = group.lane; p < a.parts; p += group.lanes) {
    const float lse = *reinterpret_cast<const float*>(address_of(a.lses[p], r));
    mine[p].term = lse;
    if (lse == none) continue;
    live |= u64_t{1} << p;
    if (!(lse <= most)) most = lse;
  }
  for (int step = group.lanes / 2; step > 0; step /= 2) {
    const double other = group.across(most, step);
    most = most < other ? other : most;
    live |= group.across(live, step);
  }
  double sum = 0;
#pragma unroll 1
  for (int p = group.lane; p < a.parts; p += group.lanes) {
    mine[p].term = live >> p & 1 ? exp(mine[p].term - most) : 0.0;
    sum += mine[p].term;
  }
  for (int step = group.lanes / 2; step > 0; step /= 2) sum += group.across(sum, step);
  if (sink != none) sum += exp(sink - most);
#pragma unroll 1
  for (int p = group.lane; p < a.parts; p += group.lanes) {
    mine[p].weight = live >> p & 1 ? static_cast<float>(mine[p].term / sum) : 0.0f;
  }
  __syncwarp(group.mask);
  return {mine, live, sum == 0 ? none : static_cast<float>(most + log(sum))};
}

// The one live part of weight 1 that passes bit by bit; -1: there is none.
inline int lone_part(const MergeArgs& a, const Weights& w) {
  if (w.live == 0 || (w.live & (w.live - 1)) != 0) return -1;
  int p = 0;
  while ((w.live >> p & 1) == 0) ++p;
  return w.of[p].weight == 1.0f && static_cast<Dtype>(a.types[p]) == a.out_type ? p : -1;
}

// Eight aligned elements of a row from dim e on, which all parts hold as Type.
template <class Type>
inline void merge_chunk(const MergeArgs& a, const MergeRow& r, const Weights& w, int e) {
  float sum[8];
#pragma unroll
  for (int j = 0; j < 8; ++j) sum[j] = w.live == 0 ? 0.0f : -0.0f;  // x * w - 0 is x * w, its sign too
#pragma unroll 1
  for (int first = 0; first < a.parts; first += kAhead) {
    u32_t words[kAhead][8];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      if (!(w.live >> (first + k) & 1)) continue;
      fetch_aligned<Type>(address_of(a.outs[first + k], r) + e * static_cast<int>(sizeof(typename Type::Raw)),
                          words[k]);
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      if (!(w.live >> (first + k) & 1)) continue;
      const float weight = w.of[first + k].weight;
      float x[8];
      widen<Type>(words[k], x);
#pragma unroll
      for (int j = 0; j < 8; ++j) sum[j] = fmaf(x[j], weight, sum[j]);
    }
  }
  with_input_type(a.out_type, [&](auto type) {
    using Out = decltype(type);
    u32_t words[8];
    narrow<Out>(sum, words);
    put_aligned<Out>(address_of(a.out, r) + e * static_cast<int>(sizeof(typename Out::Raw)), words);
  });
}

// The same for one element, whose type may be another in each part.
inline void merge_element(const MergeArgs& a, const MergeRow& r, const Weights& w, int e) {
  float sum = w.live == 0 ? 0.0f : -0.0f;
  for (int p = 0; p < a.parts; ++p) {
    if (!(w.live >> p & 1)) continue;
    const Dtype type = static_cast<Dtype>(a.types[p]);
    sum = fmaf(float_at(address_of(a.outs[p], r) + e * dtype_block_bytes(type), type), w.of[p].weight, sum);
  }
  with_input_type(a.out_type, [&](auto type) {
    using Out = decltype(type);
    *reinterpret_cast<typename Out::Raw*>(address_of(a.out, r) + e * static_cast<int>(sizeof(typename Out::Raw))) =
        Out::narrow(sum);
  });
}

// Copies this lane's elements of a row.
inline void copy_row(const MergeArgs& a, const Group& group, const char* from, char* to) {
  if (from == to) return;
  const int size = dtype_block_bytes(a.out_type), bytes = a.d * size;
  if (a.wide) {
    for (int i = group.lane * 16; i < bytes; i += group.lanes * 16) {
      *reinterpret_cast<uint4*>(to + i) = *reinterpret_cast<const uint4*>(from + i);
    }
  } else if (size == 4) {
    for (int i = group.lane * 4; i < bytes; i += group.lanes * 4) {
      *reinterpret_cast<u32_t*>(to + i) = *reinterpret_cast<const u32_t*>(from + i);
    }
  } else {
    for (int i = group.lane * 2; i < bytes; i += group.lanes * 2) {
      *reinterpret_cast<u16_t*>(to + i) = *reinterpret_cast<const u16_t*>(from + i);
    }
  }
}

inline void merge(const MergeArgs& a, const MergeRow& r, const Weights& w, const Group& group) {
  const int lone = lone_part(a, w);
  if (lone >= 0) return copy_row(a, group, address_of(a.outs[lone], r), address_of(a.out, r));
  if (!a.wide) {
    for (int e = group.lane; e < a.d; e += group.lanes) merge_element(a, r, w, e);
    return;
  }
  with_input_type(static_cast<Dtype>(a.types[0]), [&](auto type) {
    for (int e = group.lane * 8; e < a.d; e += group.lanes * 8) merge_chunk<decltype(type)>(a, r, w, e);
  });
}

extern "C" __global__ void __launch_bounds__(kMergeThreads) merge_states(const __grid_constant__ MergeArgs args) {
  start_grid();
  __shared__ PartWeight weights[kMostRows][config::parts];
  Group group;
  group.lanes = args.lanes;
  group.lane = static_cast<int>(threadIdx.x) % args.lanes;
  const int first = static_cast<int>(threadIdx.x) % 32 - group.lane;
  group.mask = (args.lanes == 32 ? 0xFFFFFFFFu : (1u << args.lanes) - 1) << first;
  const int rows_per_block = kMergeThreads / args.lanes;
  PartWeight* const mine = weights[static_cast<int>(threadIdx.x) / args.lanes];
  const i64_t step = static_cast<i64_t>(gridDim.x) * rows_per_block;
  for (i64_t i = static_cast<i64_t>(blockIdx.x) * rows_per_block + static_cast<int>(threadIdx.x) / args.lanes;
       i < args.rows; i += step) {
    const MergeRow r = merge_row(args, i);
    const Weights w = weigh(args, r, group, mine);
    merge(args, r, w, group);
    if (args.lse.data != nullptr && group.lane == 0) *reinterpret_cast<float*>(address_of(args.lse, r)) = w.lse;
    __syncwarp(group.mask);  // the weights have been read
  }
}

}  // namespace fovea
