// SPDX-License-Identifier: Apache-2.0
// Products of a warp, SM80 on: d += a b. Lane l; g = l / 4, c = l % 4. A register holds 32 bits of neighbours in k, the
// lower index in the lower bits: two 16-bit values or four bytes. In bytes of k the two shapes are one:
//
//   16-bit, k = 16 (PTX ISA 9.7.14.5.8)                     8-bit, k = 32 (PTX ISA 9.7.14.5.10)
//   A (16 x k, row major)
//     a0 = A[g][2c, 2c+1]        a2 = A[g][2c+8, +9]          a0 = A[g][4c .. 4c+3]      a2 = A[g][4c+16 .. +19]
//     a1 = A[g+8][2c, 2c+1]      a3 = A[g+8][2c+8, +9]        a1 = A[g+8][4c .. 4c+3]    a3 = A[g+8][4c+16 .. +19]
//   B (k x 8, column major)
//     b0 = B[2c, 2c+1][g]        b1 = B[2c+8, +9][g]          b0 = B[4c .. 4c+3][g]      b1 = B[4c+16 .. +19][g]
//   C and D (16x8), 32-bit:      d0, d1 = D[g][2c, 2c+1]      d2, d3 = D[g+8][2c, 2c+1]
//
//   D, lanes       column  0 1   2 3   4 5   6 7            A, 16-bit    column  0 1   2 3   4 5   6 7 | 8 9  ... 14 15
//          row 0           0     1     2     3   d0, d1             row 0        0     1     2     3   | 0        3
//          row 1           4     5     6     7                          ...             a0             |    a2
//          ...                                                      row 8        0     1     2     3   | 0        3
//          row 8           0     1     2     3   d2, d3                 ...             a1             |    a3
//
// So D of two products side by side in n, rounded in pairs, is A of the next with 16-bit values. With bytes it is not:
// a lane has two neighbours of D's columns and needs four of A's.
#pragma once

namespace fovea::ptx {

// f32 sums. PTX ISA 9.7.14.5.14 (mma).
__device__ inline void mma_m16n8k16_f16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ inline void mma_m16n8k16_bf16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// s32 sums, which wrap around. The name says A, then B.
__device__ inline void mma_m16n8k32_s8_s8(int (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ inline void mma_m16n8k32_u8_s8(int (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ inline void mma_m16n8k32_s8_u8(int (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ inline void mma_m16n8k32_u8_u8(int (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace fovea::ptx
