// SPDX-License-Identifier: Apache-2.0
// quantize: what a plan is made from, and the block a kernel receives. Freestanding.
#pragma once

#include "shared/weights/scale.h"

namespace fovea {

struct QuantizeSpec {
  Dtype x = Dtype::none;
  Dtype out = Dtype::none;
  WeightScale scale_kind = WeightScale::none;  // of e4m3
  i64_t n = 0;                                 // the most a run may have
  i64_t k = 0;
  bool operator==(const QuantizeSpec&) const = default;
};

struct QuantizeArgs {
  QuantizeSpec spec;
  View x;    // [n, k]
  View out;  // [n, k]
  View scale;
};

// Blocks of a task, counted along rows and then over rows.
constexpr i64_t quantize_blocks_per_task(Dtype out) {
  return 16384 / dtype_block(out);
}

// e4m3: the matrix in pieces of about 16384 weights, none of which has two scales. Pieces lie in a grid.
struct Fp8Pieces {
  i64_t rows = 1, columns = 1;  // of a piece
  i64_t down = 0, across = 0;   // pieces
  i64_t groups = 0;             // scales

  constexpr Fp8Pieces(const QuantizeSpec& s) {
    constexpr i64_t kMost = kWeightScaleBlock * kWeightScaleBlock;
    const bool block = s.scale_kind == WeightScale::block;
    columns = block ? kWeightScaleBlock : kMost;
    if (block) rows = kWeightScaleBlock;
    if (s.scale_kind == WeightScale::tensor && s.k > 0 && s.k < kMost) rows = kMost / s.k;
    if (s.k == 0) return;
    down = s.n / rows + (s.n % rows != 0);
    across = s.k / columns + (s.k % columns != 0);
    groups = block ? down * across : s.scale_kind == WeightScale::channel ? s.n : s.n > 0;
  }
  constexpr i64_t count() const { return down * across; }
  constexpr i64_t group_of(i64_t piece, WeightScale kind) const {
    return kind == WeightScale::block ? piece : kind == WeightScale::channel ? piece / across : 0;
  }
};

// A scale puts the largest weight on one of the codes of e4m3's highest binade.
inline constexpr int kFp8Candidates = 8;
inline constexpr float kFp8Targets[kFp8Candidates] = {448, 416, 384, 352, 320, 288, 256, 240};

// Floats of scratch for a piece, and for a scale: the largest magnitude, and an error of each candidate.
inline constexpr i64_t kFp8Floats = 1 + kFp8Candidates;

}  // namespace fovea
