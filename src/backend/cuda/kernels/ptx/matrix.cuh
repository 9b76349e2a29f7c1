// SPDX-License-Identifier: Apache-2.0
// Matrix fragments of a warp, SM80 on. Lane l; g = l / 4, c = l % 4.
//
//   A (16x16, row major), four registers of two 16-bit values:
//     a0 = A[g][2c, 2c+1]    a1 = A[g+8][2c, 2c+1]    a2 = A[g][2c+8, +9]    a3 = A[g+8][2c+8, +9]
//   B (16x8, column major), two registers:   b0 = B[2c, 2c+1][g]    b1 = B[2c+8, +9][g]
//   C and D (16x8), four f32:   d0, d1 = D[g][2c, 2c+1]    d2, d3 = D[g+8][2c, 2c+1]
//
// So D of one product, two by two, is A of the next.
#pragma once

namespace fovea::ptx {

// Four 8x8 matrices of 16-bit values; lanes 8i .. 8i+7 give the row addresses of matrix i (16 bytes each, aligned).
// Register i of lane l holds M_i[g][2c, 2c+1]. PTX ISA 9.7.14.5.15 (ldmatrix).
__device__ inline void load_matrix_x4(unsigned (&r)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}
// The same transposed: register i holds M_i[2c, 2c+1][g].
__device__ inline void load_matrix_x4_transposed(unsigned (&r)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}

// d += a b. PTX ISA 9.7.14.5.14 (mma.m16n8k16).
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

}  // namespace fovea::ptx
