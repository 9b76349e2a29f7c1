// SPDX-License-Identifier: Apache-2.0
// Conversions between f32 and the 16-bit types, one instruction each, to nearest even. A NaN becomes the type's one
// NaN, 0x7FFF. PTX ISA 9.7.9 (cvt).
#pragma once

#include "backend/cuda/kernels/ptx/special.cuh"

namespace fovea::ptx {

// Two values to a register; `low` goes to bits 0..15. SM80 on.
__device__ inline unsigned pack_f16(float low, float high) {
  unsigned r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
__device__ inline unsigned pack_bf16(float low, float high) {
  unsigned r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
// One value, on every card.
__device__ inline unsigned short f16_of_f32(float x) {
  unsigned short r;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x));
  return r;
}
__device__ inline float f32_of_f16(unsigned short x) {
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x));
  return r;
}

}  // namespace fovea::ptx
