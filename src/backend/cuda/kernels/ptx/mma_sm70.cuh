// SPDX-License-Identifier: Apache-2.0
// Products of quad-pairs, for SM70 and SM75: d += a b, f16 with f32 sums. For SM80 and later the compiler puts a
// routine of shuffles and fma in their place, far slower, with which kernels of SM70 are tested on later cards. PTX ISA
// 9.7.14.5.1 (fragments of mma.m8n8k4), 9.7.14.5.14 (mma).
//
// A warp makes four independent products, 8x8 with k = 4. Quad-pair q is lanes 4q .. 4q+3 and 4q+16 .. 4q+19; in it a
// lane l has r = l % 4 + (l < 16 ? 0 : 4), from 0 to 7. A register holds two f16 values, the lower index low.
//
//   A (8x4, row major)       a0 = A[r][0, 1]    a1 = A[r][2, 3]
//   B (4x8, column major)    b0 = B[0, 1][r]    b1 = B[2, 3][r]           .col: a lane holds a column
//   B (4x8, row major)       b0, b1 = B[l % 4][h .. h+3], h = l < 16 ? 0 : 4   .row: half a row
//   D (8x8)                  d[i] = D[row][column], row = (l < 16 ? 0 : 4) + (l & 1) + (i & 2)
//                                                   column = (i & 4) + (l & 2) + (i & 1)
//
//   D of quad-pair 0: lane and i     column 0    1     2     3     4     5     6     7
//                           row 0         0:0   0:1   2:0   2:1   0:4   0:5   2:4   2:5
//                               1         1:0   1:1   3:0   3:1   1:4   1:5   3:4   3:5
//                               2         0:2   0:3   2:2   2:3   0:6   0:7   2:6   2:7
//                               3         1:2   1:3   3:2   3:3   1:6   1:7   3:6   3:7
//                            4..7         the same of lanes 16 .. 19
//
// Unlike the later shapes, D is not A of the next product: a lane has parts of two rows.
#pragma once

namespace fovea::ptx {

__device__ inline void mma_m8n8k4_f16(float (&d)[8], const unsigned (&a)[2], unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9}, {%10, %11}, "
      "{%0, %1, %2, %3, %4, %5, %6, %7};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
      : "r"(a[0]), "r"(a[1]), "r"(b0), "r"(b1));
}
// B row major: V as it lies, where the other takes K.
__device__ inline void mma_m8n8k4_f16_row(float (&d)[8], const unsigned (&a)[2], unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m8n8k4.row.row.f32.f16.f16.f32 {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9}, {%10, %11}, "
      "{%0, %1, %2, %3, %4, %5, %6, %7};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
      : "r"(a[0]), "r"(a[1]), "r"(b0), "r"(b1));
}

}  // namespace fovea::ptx
