// SPDX-License-Identifier: Apache-2.0
// Four 8x8 matrices of in ([4][8][8], two 16-bit values a word) laid into shared memory with rows of 48 bytes, and read
// by every form. One block of one warp; out [14][32]: x1, x2, x4, then the same transposed.
#pragma once

#include "backend/cuda/kernels/ptx/ldmatrix.cuh"
#include "cuda/kernels/args.h"

namespace fovea::cuda_test {

extern "C" __global__ void ldmatrix(const __grid_constant__ WordsArgs args) {
  __shared__ alignas(16) unsigned rows[32 * 12];
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = 0; i < 4; ++i) rows[lane * 12 + i] = args.in[lane * 4 + i];
  __syncwarp();
  const unsigned address = ptx::shared_address(rows + lane * 12);
  unsigned x1[1], x2[2], x4[4], t1[1], t2[2], t4[4];
  ptx::load_matrix_x1(x1, address);
  ptx::load_matrix_x2(x2, address);
  ptx::load_matrix_x4(x4, address);
  ptx::load_matrix_x1_transposed(t1, address);
  ptx::load_matrix_x2_transposed(t2, address);
  ptx::load_matrix_x4_transposed(t4, address);
  const unsigned all[14] = {x1[0], x2[0], x2[1], x4[0], x4[1], x4[2], x4[3],
                            t1[0], t2[0], t2[1], t4[0], t4[1], t4[2], t4[3]};
  for (int i = 0; i < 14; ++i) args.out[i * 32 + lane] = all[i];
}

}  // namespace fovea::cuda_test
