// SPDX-License-Identifier: Apache-2.0
// Block types of 256 weights in groups of 16 or 32, little-endian. A group has a small whole scale, and a minimum where
// codes have no sign, both multiplied by an f16 of the block: weight = (d * scale) * q - dmin * minimum. Every product
// is exact in f32, so fused and separate arithmetic give the same bits.
//
// Planes of bits: a byte holds the same bits of weights that are 32 apart. Freestanding.
#pragma once

#include "shared/convert.h"
#include "shared/dtype.h"

namespace fovea {

// Weight i of a plane of `bits`-bit codes, 32 bytes after 32 bytes, each of 8 / bits codes; the low bits come first.
template <int bits>
constexpr int plane_at(const u8_t* plane, int i) {
  constexpr int kStep = 256 / bits;  // weights of 32 bytes
  return plane[i / kStep * 32 + i % 32] >> (i % kStep / 32 * bits) & ((1 << bits) - 1);
}

// Eight 6-bit scales and minimums in 12 bytes: bytes 0 to 3 and 4 to 7 are those of the first four groups with two high
// bits of the last four above them, bytes 8 to 11 are low nibbles of the last four scales and minimums.
struct ScalesAndMinimums {
  static constexpr int kBytes = 12;
  static constexpr int scale(const u8_t* p, int group) {
    return group < 4 ? p[group] & 63 : (p[group + 4] & 15) | p[group - 4] >> 6 << 4;
  }
  static constexpr int minimum(const u8_t* p, int group) {
    return group < 4 ? p[group + 4] & 63 : p[group + 4] >> 4 | p[group] >> 6 << 4;
  }
};

// 16 groups of 16; scales and minimums of 4 bits share a byte, the scale is the low nibble. q in [0, 3].
struct Q2_K {
  static constexpr Dtype kType = Dtype::q2_k;
  static constexpr int kWeights = 256;
  static constexpr int kBytes = 84;
  static constexpr int kGroup = 16;    // weights
  static constexpr int kScalesAt = 0;  // bytes, as all that end in At
  static constexpr int kCodesAt = 16;
  static constexpr int kScaleAt = 80;
  static constexpr int kMinimumAt = 82;

  static constexpr float scale(const u8_t* block, int group) {
    return f16_to_f32(u16_at(block + kScaleAt)) * static_cast<float>(block[kScalesAt + group] & 15);
  }
  static constexpr float minimum(const u8_t* block, int group) {
    return f16_to_f32(u16_at(block + kMinimumAt)) * static_cast<float>(block[kScalesAt + group] >> 4);
  }
  static constexpr float weight(const u8_t* block, int i) {
    const float q = static_cast<float>(plane_at<2>(block + kCodesAt, i));
    return q * scale(block, i / kGroup) - minimum(block, i / kGroup);
  }
};

// 16 groups of 16; scales of 6 bits, 32 is zero: 16 low nibbles in 8 bytes (low ones first), then two high bits in a
// plane of four bytes. q in [-4, 3]: two bits, and 4 less where the bit of the high plane is 0.
struct Q3_K {
  static constexpr Dtype kType = Dtype::q3_k;
  static constexpr int kWeights = 256;
  static constexpr int kBytes = 110;
  static constexpr int kGroup = 16;
  static constexpr int kHighBitsAt = 0;
  static constexpr int kCodesAt = 32;
  static constexpr int kScalesAt = 96;
  static constexpr int kScaleAt = 108;
  static constexpr int kScaleZero = 32;

  static constexpr float scale(const u8_t* block, int group) {
    const u8_t* p = block + kScalesAt;
    const int low = p[group % 8] >> (group / 8 * 4) & 15;
    const int high = p[8 + group % 4] >> (group / 4 * 2) & 3;
    return f16_to_f32(u16_at(block + kScaleAt)) * static_cast<float>((low | high << 4) - kScaleZero);
  }
  static constexpr float weight(const u8_t* block, int i) {
    const int q = plane_at<2>(block + kCodesAt, i) + 4 * plane_at<1>(block + kHighBitsAt, i) - 4;
    return static_cast<float>(q) * scale(block, i / kGroup);
  }
};

// What q4_k and q5_k begin with: f16 scale and minimum, and those of 8 groups of 32.
struct K8Groups {
  static constexpr int kGroup = 32;
  static constexpr int kScaleAt = 0;
  static constexpr int kMinimumAt = 2;
  static constexpr int kScalesAt = 4;

  static constexpr float scale(const u8_t* block, int group) {
    return f16_to_f32(u16_at(block + kScaleAt)) *
           static_cast<float>(ScalesAndMinimums::scale(block + kScalesAt, group));
  }
  static constexpr float minimum(const u8_t* block, int group) {
    return f16_to_f32(u16_at(block + kMinimumAt)) *
           static_cast<float>(ScalesAndMinimums::minimum(block + kScalesAt, group));
  }
};

// q in [0, 15].
struct Q4_K : K8Groups {
  static constexpr Dtype kType = Dtype::q4_k;
  static constexpr int kWeights = 256;
  static constexpr int kBytes = 144;
  static constexpr int kCodesAt = kScalesAt + ScalesAndMinimums::kBytes;

  static constexpr float weight(const u8_t* block, int i) {
    const float q = static_cast<float>(plane_at<4>(block + kCodesAt, i));
    return q * scale(block, i / kGroup) - minimum(block, i / kGroup);
  }
};

// q in [0, 31].
struct Q5_K : K8Groups {
  static constexpr Dtype kType = Dtype::q5_k;
  static constexpr int kWeights = 256;
  static constexpr int kBytes = 176;
  static constexpr int kHighBitsAt = kScalesAt + ScalesAndMinimums::kBytes;
  static constexpr int kCodesAt = kHighBitsAt + 32;

  static constexpr float weight(const u8_t* block, int i) {
    const int q = plane_at<4>(block + kCodesAt, i) + 16 * plane_at<1>(block + kHighBitsAt, i);
    return static_cast<float>(q) * scale(block, i / kGroup) - minimum(block, i / kGroup);
  }
};

// 16 groups of 16 with signed 8-bit scales. q in [-32, 31]; nibbles lie 64 apart, the high plane's pairs of bits 32.
struct Q6_K {
  static constexpr Dtype kType = Dtype::q6_k;
  static constexpr int kWeights = 256;
  static constexpr int kBytes = 210;
  static constexpr int kGroup = 16;
  static constexpr int kCodesAt = 0;
  static constexpr int kHighBitsAt = 128;
  static constexpr int kScalesAt = 192;
  static constexpr int kScaleAt = 208;
  static constexpr int kZero = 32;

  static constexpr float scale(const u8_t* block, int group) {
    return f16_to_f32(u16_at(block + kScaleAt)) *
           static_cast<float>(static_cast<signed char>(block[kScalesAt + group]));
  }
  static constexpr float weight(const u8_t* block, int i) {
    const int low = block[kCodesAt + i / 128 * 64 + i % 64] >> (i % 128 / 64 * 4) & 15;
    const int q = low + 16 * plane_at<2>(block + kHighBitsAt, i) - kZero;
    return static_cast<float>(q) * scale(block, i / kGroup);
  }
};

}  // namespace fovea
