// SPDX-License-Identifier: Apache-2.0
// q8_0, 32 weights in 34 bytes, little-endian: scale d (f16), 32 signed bytes. weight = q * d, exact in f32.
// Freestanding.
#pragma once

#include "shared/convert.h"

namespace fovea {

struct Q8_0 {
  static constexpr int kWeights = 32;
  static constexpr int kBytes = 34;
  static constexpr int kScaleAt = 0;  // bytes
  static constexpr int kCodesAt = 2;  // bytes

  static constexpr float weight(const u8_t* block, int i) {
    return static_cast<float>(static_cast<signed char>(block[kCodesAt + i])) * f16_to_f32(u16_at(block + kScaleAt));
  }
};

}  // namespace fovea
