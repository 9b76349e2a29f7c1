// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shared/convert.h"

namespace fovea::ptx {

inline float half_of(unsigned x, int i) {
  return f16_to_f32(static_cast<u16_t>(x >> 16 * i));
}
inline float bf16_of(unsigned x, int i) {
  return bf16_to_f32(static_cast<u16_t>(x >> 16 * i));
}
inline unsigned two_halves(float low, float high) {
  return f32_to_f16(low) | static_cast<unsigned>(f32_to_f16(high)) << 16;
}
// Products and sums of two f16 values are exact in f32 or rounded so that rounding again does no harm.
inline unsigned mul_f16x2(unsigned a, unsigned b) {
  return two_halves(half_of(a, 0) * half_of(b, 0), half_of(a, 1) * half_of(b, 1));
}
inline unsigned add_f16x2(unsigned a, unsigned b) {
  return two_halves(half_of(a, 0) + half_of(b, 0), half_of(a, 1) + half_of(b, 1));
}
inline unsigned fma_bf16x2(unsigned a, unsigned b, unsigned c) {
  unsigned r = 0;
  for (int i = 0; i < 2; ++i) {
    r |= static_cast<unsigned>(f32_to_bf16(fmaf(bf16_of(a, i), bf16_of(b, i), bf16_of(c, i)))) << 16 * i;
  }
  return r;
}

}  // namespace fovea::ptx
