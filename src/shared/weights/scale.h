// SPDX-License-Identifier: Apache-2.0
// Scales of e4m3 weights, which stand apart from them: weight [n, k] = code * scale, rounded once to f32. Freestanding.
#pragma once

#include "shared/view.h"

namespace fovea {

enum class WeightScale : int {
  none,
  tensor,   // [1]
  channel,  // [n]: one of each row
  block,    // [ceil(n / 128), ceil(k / 128)]: one of 128 rows and 128 columns
};

inline constexpr i64_t kWeightScaleBlock = 128;  // rows, and columns

constexpr i64_t weight_scale_blocks(i64_t n) {
  return n / kWeightScaleBlock + (n % kWeightScaleBlock != 0);
}

inline float weight_scale_at(const View& scale, WeightScale kind, i64_t n, i64_t k) {
  const char* p = kind == WeightScale::tensor    ? row(scale, 0)
                  : kind == WeightScale::channel ? row(scale, n)
                                                 : row(scale, n / kWeightScaleBlock, k / kWeightScaleBlock);
  return float_at(p, scale.dtype);
}

}  // namespace fovea
