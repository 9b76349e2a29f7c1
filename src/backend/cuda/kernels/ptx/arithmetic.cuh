// SPDX-License-Identifier: Apache-2.0
// Arithmetic of two 16-bit floats in a register, to nearest even, subnormals kept. PTX ISA 9.7.4 (half precision).
#pragma once

namespace fovea::ptx {

__device__ inline unsigned mul_f16x2(unsigned a, unsigned b) {
  unsigned r;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
}
__device__ inline unsigned add_f16x2(unsigned a, unsigned b) {
  unsigned r;
  asm("add.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
}
// a b + c. SM80 on; a product alone (mul) needs SM90.
__device__ inline unsigned fma_bf16x2(unsigned a, unsigned b, unsigned c) {
  unsigned r;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  return r;
}

}  // namespace fovea::ptx
