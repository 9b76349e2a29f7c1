// SPDX-License-Identifier: Apache-2.0
// Block types of 32 weights on a straight line, weight = q * d or q * d + m, little-endian: scale d and minimum m are
// f16, and stand first. Codes of 4 bits: the low nibble of byte j is weight j, the high one weight 16 + j. A fifth bit
// of weight i is bit i of a 32-bit word before the nibbles. Every product is exact in f32, so fused and separate
// arithmetic give the same bits. Freestanding.
#pragma once

#include "shared/convert.h"
#include "shared/dtype.h"

namespace fovea {

// Code i of 32 codes of 4 bits.
constexpr int nibble_at(const u8_t* codes, int i) {
  return i < 16 ? codes[i] & 15 : codes[i - 16] >> 4;
}
// Bit i of a little-endian bit string.
constexpr int bit_at(const u8_t* bits, int i) {
  return bits[i / 8] >> (i % 8) & 1;
}

// q in [-8, 7].
struct Q4_0 {
  static constexpr Dtype kType = Dtype::q4_0;
  static constexpr int kWeights = 32;
  static constexpr int kBytes = 18;
  static constexpr int kScaleAt = 0;  // bytes, as all that end in At
  static constexpr int kCodesAt = 2;
  static constexpr int kZero = 8;  // the code of weight 0

  static constexpr float weight(const u8_t* block, int i) {
    return static_cast<float>(nibble_at(block + kCodesAt, i) - kZero) * f16_to_f32(u16_at(block + kScaleAt));
  }
};

// q in [0, 15].
struct Q4_1 {
  static constexpr Dtype kType = Dtype::q4_1;
  static constexpr int kWeights = 32;
  static constexpr int kBytes = 20;
  static constexpr int kScaleAt = 0;
  static constexpr int kMinimumAt = 2;
  static constexpr int kCodesAt = 4;

  static constexpr float weight(const u8_t* block, int i) {
    const float scaled = static_cast<float>(nibble_at(block + kCodesAt, i)) * f16_to_f32(u16_at(block + kScaleAt));
    return scaled + f16_to_f32(u16_at(block + kMinimumAt));
  }
};

// q in [-16, 15].
struct Q5_0 {
  static constexpr Dtype kType = Dtype::q5_0;
  static constexpr int kWeights = 32;
  static constexpr int kBytes = 22;
  static constexpr int kScaleAt = 0;
  static constexpr int kHighBitsAt = 2;
  static constexpr int kCodesAt = 6;
  static constexpr int kZero = 16;

  static constexpr float weight(const u8_t* block, int i) {
    const int q = nibble_at(block + kCodesAt, i) + 16 * bit_at(block + kHighBitsAt, i);
    return static_cast<float>(q - kZero) * f16_to_f32(u16_at(block + kScaleAt));
  }
};

// q in [0, 31].
struct Q5_1 {
  static constexpr Dtype kType = Dtype::q5_1;
  static constexpr int kWeights = 32;
  static constexpr int kBytes = 24;
  static constexpr int kScaleAt = 0;
  static constexpr int kMinimumAt = 2;
  static constexpr int kHighBitsAt = 4;
  static constexpr int kCodesAt = 8;

  static constexpr float weight(const u8_t* block, int i) {
    const int q = nibble_at(block + kCodesAt, i) + 16 * bit_at(block + kHighBitsAt, i);
    return static_cast<float>(q) * f16_to_f32(u16_at(block + kScaleAt)) + f16_to_f32(u16_at(block + kMinimumAt));
  }
};

// q in [-128, 127], signed bytes.
struct Q8_0 {
  static constexpr Dtype kType = Dtype::q8_0;
  static constexpr int kWeights = 32;
  static constexpr int kBytes = 34;
  static constexpr int kScaleAt = 0;
  static constexpr int kCodesAt = 2;

  static constexpr float weight(const u8_t* block, int i) {
    return static_cast<float>(static_cast<signed char>(block[kCodesAt + i])) * f16_to_f32(u16_at(block + kScaleAt));
  }
};

}  // namespace fovea
