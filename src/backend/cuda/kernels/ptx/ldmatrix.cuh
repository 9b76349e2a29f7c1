// SPDX-License-Identifier: Apache-2.0
// 8x8 matrices of 16-bit values between shared memory and a warp. Lane l; g = l / 4, c = l % 4.
//
//   register i of lane l, its low half first              lanes whose address counts: row l % 8 of matrix l / 8
//     plain        M_i[g][2c], M_i[g][2c + 1]                x1: 0 .. 7     x2: 0 .. 15     x4: 0 .. 31
//     transposed   M_i[2c][g], M_i[2c + 1][g]             each names 16 bytes, aligned to 16
//
//            column  0 1   2 3   4 5   6 7
//     row 0  lanes   0     1     2     3
//     row 1          4     5     6     7            (plain)
//     ...
//     row 7          28    29    30    31
//
// 8-bit values travel in pairs: a row is 16 of them. Transposing keeps the pairs together, so it is of no use to them.
#pragma once

#include "backend/cuda/kernels/ptx/address.cuh"

namespace fovea::ptx {

// SM75 on. PTX ISA 9.7.14.5.15 (ldmatrix).
__device__ inline void load_matrix_x1(unsigned (&r)[1], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r[0]) : "r"(address));
}
__device__ inline void load_matrix_x2(unsigned (&r)[2], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(address));
}
__device__ inline void load_matrix_x4(unsigned (&r)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}
__device__ inline void load_matrix_x1_transposed(unsigned (&r)[1], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(r[0]) : "r"(address));
}
__device__ inline void load_matrix_x2_transposed(unsigned (&r)[2], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(address));
}
__device__ inline void load_matrix_x4_transposed(unsigned (&r)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}

// SM90 on. PTX ISA 9.7.14.5.16 (stmatrix).
__device__ inline void store_matrix_x1(unsigned address, const unsigned (&r)[1]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(address), "r"(r[0]) : "memory");
}
__device__ inline void store_matrix_x2(unsigned address, const unsigned (&r)[2]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(address), "r"(r[0]), "r"(r[1])
               : "memory");
}
__device__ inline void store_matrix_x4(unsigned address, const unsigned (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r[0]), "r"(r[1]),
               "r"(r[2]), "r"(r[3])
               : "memory");
}
__device__ inline void store_matrix_x1_transposed(unsigned address, const unsigned (&r)[1]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%0], {%1};" ::"r"(address), "r"(r[0]) : "memory");
}
__device__ inline void store_matrix_x2_transposed(unsigned address, const unsigned (&r)[2]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(address), "r"(r[0]), "r"(r[1])
               : "memory");
}
__device__ inline void store_matrix_x4_transposed(unsigned address, const unsigned (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r[0]),
               "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
}

}  // namespace fovea::ptx
