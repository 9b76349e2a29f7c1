// SPDX-License-Identifier: Apache-2.0
// q4_1, 32 weights in 20 bytes, little-endian: scale d (f16), minimum m (f16), 16 bytes of nibbles. The low nibble of
// byte j is weight j, the high one weight 16 + j. weight = q * d + m with q in [0, 15]: the product is exact in f32, so
// fused and separate arithmetic give the same bits. Freestanding.
#pragma once

#include "shared/convert.h"

namespace fovea {

struct Q4_1 {
  static constexpr int kWeights = 32;
  static constexpr int kBytes = 20;
  static constexpr int kScaleAt = 0;    // bytes
  static constexpr int kMinimumAt = 2;  // bytes
  static constexpr int kCodesAt = 4;    // bytes

  static constexpr float weight(const u8_t* block, int i) {
    const u8_t byte = block[kCodesAt + i % 16];
    const int q = i < 16 ? byte & 15 : byte >> 4;
    return static_cast<float>(q) * f16_to_f32(u16_at(block + kScaleAt)) + f16_to_f32(u16_at(block + kMinimumAt));
  }
};

}  // namespace fovea
