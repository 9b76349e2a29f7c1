// SPDX-License-Identifier: Apache-2.0
// Products of a warp with k = 8, d += a b with f32 sums: f16 from SM75 on, bf16 from SM80 on. PTX ISA 9.7.14.5.7
// (fragments of mma.m16n8k8), 9.7.14.5.14 (mma). Lane l; g = l / 4, c = l % 4; a register holds two values, the lower
// index low.
//
//   A (16x8, row major)      a0 = A[g][2c, 2c+1]    a1 = A[g+8][2c, 2c+1]
//   B (8x8, column major)    b0 = B[2c, 2c+1][g]
//   C and D (16x8)           d0, d1 = D[g][2c, 2c+1]    d2, d3 = D[g+8][2c, 2c+1]
//
// So D of one product, rounded in pairs, is A of the next: (d0, d1) is a0, (d2, d3) is a1.
#pragma once

namespace fovea::ptx {

__device__ inline void mma_m16n8k8_f16(float (&d)[4], const unsigned (&a)[2], unsigned b0) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(b0));
}
__device__ inline void mma_m16n8k8_bf16(float (&d)[4], const unsigned (&a)[2], unsigned b0) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(b0));
}

}  // namespace fovea::ptx
