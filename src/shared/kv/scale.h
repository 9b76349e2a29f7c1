// SPDX-License-Identifier: Apache-2.0
// The scale that kv_append computes for fp8, the same bits on every backend. Freestanding.
#pragma once

#include "shared/convert.h"
#include "shared/dtype.h"

namespace fovea {

constexpr float largest_e4m3() {
  return 448.0f;
}

// max|x| / 448 in the scale's type (f32, f16 or bf16), as its bits: to nearest, but upwards where that type has lost
// digits (a subnormal scale rounded down would saturate the largest elements), and never zero or infinite. most: above
// zero, finite. `value` is the number that the bits hold.
constexpr u32_t computed_scale(Dtype type, float most, float& value) {
  float scale = most / largest_e4m3();
  if (scale < 0x1p-126f && scale * largest_e4m3() < most) scale = float_of_bits(bits_of_float(scale) + 1);
  value = scale;
  if (type == Dtype::f32) return bits_of_float(scale);
  const bool half = type == Dtype::f16;
  const u32_t smallest_normal = half ? 0x0400 : 0x0080, largest = half ? 0x7BFF : 0x7F7F;
  u32_t h = half ? f32_to_f16(scale) : f32_to_bf16(scale);
  value = half ? f16_to_f32(static_cast<u16_t>(h)) : bf16_to_f32(static_cast<u16_t>(h));
  if (h < smallest_normal && value < scale) ++h;
  if (h > largest) h = largest;
  value = half ? f16_to_f32(static_cast<u16_t>(h)) : bf16_to_f32(static_cast<u16_t>(h));
  return h;
}

}  // namespace fovea
