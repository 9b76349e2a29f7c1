// SPDX-License-Identifier: Apache-2.0
// Conversions of fp8, two values at a time: in a pair the lower byte is the one of the lower half.
//
//   e4m3  sign, 4 bits of exponent (bias 7), 3 of mantissa: +-448 the largest, 0x7F and 0xFF NaN, no infinity
//   e5m2  sign, 5 bits of exponent (bias 15), 2 of mantissa: the upper half of an f16
//
// First the instructions of SM89 and later, then the same by integers for every card. All of them round to nearest
// even, saturate at 448, infinities included, and keep NaN. The bytes are those of shared/convert.h but for one: the
// instruction gives 0x7F for a NaN of either sign, shared/convert.h and the integer functions keep the sign.
#pragma once

#include "backend/cuda/kernels/ptx/arithmetic.cuh"

namespace fovea::ptx {

// SM89 on. PTX ISA 9.7.9 (cvt).
__device__ inline unsigned short e4m3x2_of_f16x2(unsigned x) {
  unsigned short r;
  asm("cvt.rn.satfinite.e4m3x2.f16x2 %0, %1;" : "=h"(r) : "r"(x));
  return r;
}
__device__ inline unsigned short e4m3x2_of_f32(float low, float high) {
  unsigned short r;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(r) : "f"(high), "f"(low));
  return r;
}
__device__ inline unsigned f16x2_of_e4m3x2(unsigned short x) {
  unsigned r;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"(x));
  return r;
}
__device__ inline unsigned f16x2_of_e5m2x2(unsigned short x) {
  unsigned r;
  asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(r) : "h"(x));
  return r;
}

// Bytes 0 and 1 of x, each in the low byte of a half.
__device__ inline unsigned spread_bytes(unsigned x) {
  return (x & 0xFFu) | (x & 0xFF00u) << 8;
}

// Every card. With the magnitude's bits at the place of an f16, its value is 2^-8 of what it means; the product with
// 256 is exact and makes e4m3's subnormals normal. It would read NaN as 480: 0x1E80 more are f16's 0x7E00.
__device__ inline unsigned f16x2_of_e4m3x2_by_integers(unsigned short x) {
  const unsigned codes = spread_bytes(x);
  const unsigned nan = ((codes & 0x007F007Fu) + 0x00010001u) & 0x00800080u;
  const unsigned magnitude = mul_f16x2((codes & 0x007F007Fu) << 7, 0x5C005C00u) + nan * 0x3Du;
  return magnitude | (codes & 0x00800080u) << 8;
}
// SM80 on. As above, by 2^120; bf16's NaN is 0x7FC0, 0x3BD0 above 480. -0 adds nothing to any product.
__device__ inline unsigned bf16x2_of_e4m3x2(unsigned short x) {
  const unsigned codes = spread_bytes(x);
  const unsigned nan = ((codes & 0x007F007Fu) + 0x00010001u) & 0x00800080u;
  const unsigned magnitude = fma_bf16x2((codes & 0x007F007Fu) << 4, 0x7B807B80u, 0x80008000u) + (nan >> 3) * 0x3BDu;
  return magnitude | (codes & 0x00800080u) << 8;
}
// Every card. From 2^-6 on, the upper seven bits of the magnitude, rounded, less the difference of the biases. Below, a
// sum with 2 rounds at 2^-9, e4m3's least step.
__device__ inline unsigned short e4m3x2_of_f16x2_by_integers(unsigned x) {
  const unsigned magnitude = x & 0x7FFF7FFFu;
  const unsigned small = add_f16x2(magnitude, 0x40004000u) - 0x40004000u;
  unsigned codes = 0;
  for (int half = 0; half < 2; ++half) {
    const unsigned a = magnitude >> (16 * half) & 0x7FFFu;
    unsigned code = a < 0x2400u ? small >> (16 * half) & 0xFFu : (a - 0x2000u + 0x3Fu + (a >> 7 & 1u)) >> 7;
    if (a >= 0x5F00u) code = 0x7Eu;
    if (a > 0x7C00u) code = 0x7Fu;
    codes |= (code | (x >> (16 * half + 8) & 0x80u)) << (8 * half);
  }
  return static_cast<unsigned short>(codes);
}

}  // namespace fovea::ptx
