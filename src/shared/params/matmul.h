// SPDX-License-Identifier: Apache-2.0
// matmul: what a plan is made from, and the block a kernel receives. Freestanding.
#pragma once

#include "shared/view.h"
#include "shared/weights/scale.h"

namespace fovea {

struct MatmulSpec {
  Dtype x = Dtype::none;
  Dtype w = Dtype::none;
  Dtype w_scale = Dtype::none;
  WeightScale scale_kind = WeightScale::none;
  Dtype bias = Dtype::none;
  Dtype out = Dtype::none;
  i64_t m = 0;  // the most a run may have
  i64_t n = 0;
  i64_t k = 0;
  bool operator==(const MatmulSpec&) const = default;
};

struct MatmulArgs {
  MatmulSpec spec;
  View x;        // [m, k]
  View w;        // [n, k]
  View w_scale;  // of e4m3 weights, by scale_kind
  View bias;     // [n]
  View out;      // [m, n]
};

// Tiles of the CPU kernel. None of them changes a result: each output is one chain of sums over k.
inline constexpr i64_t kMatmulRows = 96;     // of x, per task
inline constexpr i64_t kMatmulWeights = 8;   // rows of w decoded together
inline constexpr i64_t kMatmulDepth = 1024;  // elements of k decoded together: whole blocks of every weight type
inline constexpr i64_t kMatmulPadding = 16;  // packed rows of x are padded to this: the widest vector of f32
inline constexpr i64_t kMatmulAlign = 64;    // bytes, of the packed rows

// Elements of a packed row of x.
constexpr i64_t matmul_packed_k(i64_t k) {
  return (k + kMatmulPadding - 1) / kMatmulPadding * kMatmulPadding;
}

// Rows of w in a task: about 2^17 multiply-adds of work, and at most 1024 tasks for one block of rows of x. With many
// rows of x a task writes 128 bytes of each row of out, so that threads rarely write to the same line.
constexpr i64_t matmul_weights_per_task(i64_t m, i64_t n, i64_t k) {
  const i64_t rows = m < 4 ? 4 : m > kMatmulRows ? kMatmulRows : m;
  const i64_t by_work = (1 << 17) / rows / (k > 0 ? k : 1);
  const i64_t by_count = n / 1024;
  const i64_t wanted = by_work > by_count ? by_work : by_count;
  const i64_t unit = rows < 16 ? kMatmulWeights : 4 * kMatmulWeights;
  return wanted > 1 ? (wanted + unit - 1) / unit * unit : unit;
}

}  // namespace fovea
