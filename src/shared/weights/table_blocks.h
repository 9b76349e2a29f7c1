// SPDX-License-Identifier: Apache-2.0
// Block types of 32 weights whose 4-bit codes name values of a table, weight = kValues[q] * scale: nibbles as in
// linear_blocks.h. Exact in f32. Freestanding.
#pragma once

#include "shared/weights/linear_blocks.h"

namespace fovea {

// iq4_nl, 18 bytes: f16 scale, nibbles. The values lie closer together near 0.
struct IQ4_NL {
  static constexpr Dtype kType = Dtype::iq4_nl;
  static constexpr int kWeights = 32;
  static constexpr int kBytes = 18;
  static constexpr int kScaleAt = 0;  // bytes, as all that end in At
  static constexpr int kCodesAt = 2;
  static constexpr signed char kValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

  static constexpr float scale(const u8_t* block) { return f16_to_f32(u16_at(block + kScaleAt)); }
  static constexpr float weight(const u8_t* block, int i) {
    return static_cast<float>(kValues[nibble_at(block + kCodesAt, i)]) * scale(block);
  }
};

// mxfp4, 17 bytes: an exponent e (e8m0), nibbles of e2m1. The table holds doubled values, so that they are whole
// numbers, and the scale is 2^(e - 128). e = 255, NaN in the OCP text, is 2^127 here as in ggml.
struct MXFP4 {
  static constexpr Dtype kType = Dtype::mxfp4;
  static constexpr int kWeights = 32;
  static constexpr int kBytes = 17;
  static constexpr int kExponentAt = 0;
  static constexpr int kCodesAt = 1;
  static constexpr signed char kValues[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

  static constexpr float scale(const u8_t* block) {
    const u32_t e = block[kExponentAt];
    return float_of_bits(e < 2 ? 0x200000u << e : (e - 1) << 23);  // the first two are subnormal
  }
  static constexpr float weight(const u8_t* block, int i) {
    return static_cast<float>(kValues[nibble_at(block + kCodesAt, i)]) * scale(block);
  }
};

}  // namespace fovea
