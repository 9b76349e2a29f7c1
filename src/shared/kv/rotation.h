// SPDX-License-Identifier: Apache-2.0
// The fixed rotation of quantised K and V: R = H D / sqrt(d), signs first. D is a table of signs for each d, H a
// Hadamard matrix: a small one of order 1, 12, 20 or 28, by Sylvester's of a power of two. Nothing here divides by
// sqrt(d): who needs R itself does. Freestanding. docs/kv-formats.md
#pragma once

#include "shared/convert.h"
#include "shared/exact.h"

namespace fovea {

namespace detail {

// Rows of Hadamard matrices; bit j is set where column j holds -1. Paley's: 12 and 20 from the squares modulo 11 and
// 19, 28 by his second construction modulo 13.
inline constexpr u32_t kHadamard12[] = {0x000, 0x475, 0x8E9, 0x1D3, 0x3A5, 0x749,
                                        0xE91, 0xD23, 0xA47, 0x48F, 0x91D, 0x23B};
inline constexpr u32_t kHadamard20[] = {0x00000, 0x615E5, 0xC2BC9, 0x85793, 0x0AF27, 0x15E4D, 0x2BC99,
                                        0x57931, 0xAF261, 0x5E4C3, 0xBC985, 0x7930B, 0xF2615, 0xE4C2B,
                                        0xC9857, 0x930AF, 0x2615F, 0x4C2BD, 0x98579, 0x30AF3};
inline constexpr u32_t kHadamard28[] = {0x0000002, 0xAAAAAAB, 0x30FF0C8, 0x9A55A6E, 0xC3FC320, 0x69569BA, 0x0FF0C8C,
                                        0xA55A6E6, 0x3FC3230, 0x9569B9A, 0xFF0C8C0, 0x55A6E6A, 0xFC3230C, 0x569B9A6,
                                        0xF0C8C3C, 0x5A6E696, 0xC3230FC, 0x69B9A56, 0x0C8C3FC, 0xA6E6956, 0x3230FF0,
                                        0x9B9A55A, 0xC8C3FC0, 0x6E6956A, 0x230FF0C, 0xB9A55A6, 0x8C3FC30, 0xE69569A};

// Bit i % 32 of word i / 32 is set where sign i is -1: the high bit of the finaliser of SplitMix64 over attempt << 32 |
// d << 16 | i, for the first attempt under which no entry of H s is above 3 sqrt(d).
inline constexpr u32_t kSigns32[] = {0xA56FABFC};
inline constexpr u32_t kSigns48[] = {0x1DA0664C, 0x0000A0F9};
inline constexpr u32_t kSigns64[] = {0xF6329D8F, 0x2B4D3FDA};
inline constexpr u32_t kSigns80[] = {0xF9C955E4, 0x0C0BD2F3, 0x00007BEC};
inline constexpr u32_t kSigns96[] = {0xDB793A44, 0xC9FEF034, 0x04999D70};
inline constexpr u32_t kSigns112[] = {0x226988D1, 0x0901E51C, 0x6C681CB1, 0x0000B7D8};
inline constexpr u32_t kSigns128[] = {0x68C12878, 0x6D8F51C0, 0x59132F10, 0xD8D2F33D};
inline constexpr u32_t kSigns160[] = {0xE8579242, 0x7BCAFB94, 0x5945C9AD, 0xD52DEFDB, 0xEC4C9AA1};
inline constexpr u32_t kSigns192[] = {0x3BEBF714, 0x04871079, 0xC184008B, 0x75A4FE90, 0x748A7D95, 0x5105EC9F};
inline constexpr u32_t kSigns224[] = {0xC3A8BD8E, 0xFE6B3159, 0xF76C7DA9, 0x27114EAD,
                                      0xB51AE61D, 0x86ADCBA2, 0x7A9D6123};
inline constexpr u32_t kSigns256[] = {0x2682A4C8, 0x8669BC1D, 0xDFBE5A2A, 0x54BC7EA9,
                                      0xFB40A9C4, 0x7D31C0BA, 0x82418E2E, 0x1D51C6D0};
inline constexpr u32_t kSigns320[] = {0x733B8117, 0x56D40E3F, 0x0B5A93CD, 0xDFF19A74, 0x5E8615FA,
                                      0xC558DC70, 0x7A2D0C7B, 0x79226C67, 0x7516B4F2, 0x99EEFC9E};
inline constexpr u32_t kSigns512[] = {0xDA81FF6A, 0xCA94BBDD, 0x7EB8C9D7, 0x9791C0A2, 0x00ECB276, 0x5005D2AD,
                                      0x0506C666, 0x0C755CF1, 0x5DF6CF19, 0x652BB08A, 0x7FD4B1BC, 0x6D9DB1D7,
                                      0xF9C07ABF, 0xDB299552, 0xD82F683F, 0xF31D471B};

}  // namespace detail

struct Rotation {
  int d = 0;
  int order = 1;                // of the small matrix
  const u32_t* rows = nullptr;  // of it; null: order 1
  const u32_t* signs = nullptr;
};

inline constexpr Rotation kRotations[] = {
    {32, 1, nullptr, detail::kSigns32},
    {48, 12, detail::kHadamard12, detail::kSigns48},
    {64, 1, nullptr, detail::kSigns64},
    {80, 20, detail::kHadamard20, detail::kSigns80},
    {96, 12, detail::kHadamard12, detail::kSigns96},
    {112, 28, detail::kHadamard28, detail::kSigns112},
    {128, 1, nullptr, detail::kSigns128},
    {160, 20, detail::kHadamard20, detail::kSigns160},
    {192, 12, detail::kHadamard12, detail::kSigns192},
    {224, 28, detail::kHadamard28, detail::kSigns224},
    {256, 1, nullptr, detail::kSigns256},
    {320, 20, detail::kHadamard20, detail::kSigns320},
    {512, 1, nullptr, detail::kSigns512},
};
inline constexpr int kMostRotatedDim = 512;

// Null where there is none for vectors of d.
constexpr const Rotation* find_rotation(int d) {
  for (const Rotation& r : kRotations) {
    if (r.d == d) return &r;
  }
  return nullptr;
}

constexpr bool is_negative(const u32_t* bits, int i) {
  return bits[i / 32] >> (i % 32) & 1u;
}

inline void apply_signs(const Rotation& r, float* x) {
  for (int i = 0; i < r.d; ++i) {
    if (is_negative(r.signs, i)) x[i] = -x[i];
  }
}

// Butterflies within each run of d / order, at distance 1, 2, 4, ..: Sylvester's matrix is symmetric.
inline void apply_butterflies(const Rotation& r, float* x) {
  for (int step = 1; step < r.d / r.order; step *= 2) {
    for (int i = 0; i < r.d; ++i) {
      if (i & step) continue;
      const float a = x[i], b = x[i + step];
      x[i] = add_rn(a, b);
      x[i + step] = sub_rn(a, b);
    }
  }
}

// The small matrix, or its transpose, across the runs; sums from column 0 on.
inline void apply_small_matrix(const Rotation& r, bool transposed, float* x) {
  if (r.order == 1) return;
  const int run = r.d / r.order;
  for (int at = 0; at < run; ++at) {
    float y[28];
    for (int i = 0; i < r.order; ++i) {
      float sum = 0;
      for (int j = 0; j < r.order; ++j) {
        const bool negative = transposed ? is_negative(r.rows + j, i) : is_negative(r.rows + i, j);
        const float v = x[j * run + at];
        sum = negative ? sub_rn(sum, v) : add_rn(sum, v);
      }
      y[i] = sum;
    }
    for (int i = 0; i < r.order; ++i) x[i * run + at] = y[i];
  }
}

// x = H D x, sqrt(d) times as long as R x.
inline void rotate(const Rotation& r, float* x) {
  apply_signs(r, x);
  apply_butterflies(r, x);
  apply_small_matrix(r, false, x);
}

// x = D H^T x, sqrt(d) times as long as R^T x.
inline void rotate_back(const Rotation& r, float* x) {
  apply_small_matrix(r, true, x);
  apply_butterflies(r, x);
  apply_signs(r, x);
}

}  // namespace fovea
