// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/cuda/kernels/ptx/special.cuh"
#include "shared/convert.h"

namespace fovea::ptx {

inline unsigned short f16_of_f32(float x) {
  return x != x ? 0x7FFF : f32_to_f16(x);
}
inline float f32_of_f16(unsigned short x) {
  return f16_to_f32(x);
}
inline unsigned pack_f16(float low, float high) {
  return f16_of_f32(low) | static_cast<unsigned>(f16_of_f32(high)) << 16;
}
inline unsigned pack_bf16(float low, float high) {
  const unsigned l = low != low ? 0x7FFF : f32_to_bf16(low), h = high != high ? 0x7FFF : f32_to_bf16(high);
  return l | h << 16;
}

}  // namespace fovea::ptx
