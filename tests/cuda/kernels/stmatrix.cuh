// SPDX-License-Identifier: Apache-2.0
// The registers of in [4][32] stored by every form: out [6][32 rows][12 words] is what shared memory, all ones before,
// holds after x1, x2, x4 and the same transposed. One block of one warp.
#pragma once

#include "backend/cuda/kernels/ptx/ldmatrix.cuh"
#include "cuda/kernels/args.h"

namespace fovea::cuda_test {

extern "C" __global__ void stmatrix(const __grid_constant__ WordsArgs args) {
  __shared__ alignas(16) unsigned rows[6][32 * 12];
  const int lane = static_cast<int>(threadIdx.x);
  for (int form = 0; form < 6; ++form) {
    for (int i = 0; i < 12; ++i) rows[form][lane * 12 + i] = ~0u;
  }
  __syncwarp();
  const unsigned x4[4] = {args.in[lane], args.in[32 + lane], args.in[64 + lane], args.in[96 + lane]};
  const unsigned x2[2] = {x4[0], x4[1]}, x1[1] = {x4[0]};
  const auto address = [&](int form) { return ptx::shared_address(rows[form] + lane * 12); };
  ptx::store_matrix_x1(address(0), x1);
  ptx::store_matrix_x2(address(1), x2);
  ptx::store_matrix_x4(address(2), x4);
  ptx::store_matrix_x1_transposed(address(3), x1);
  ptx::store_matrix_x2_transposed(address(4), x2);
  ptx::store_matrix_x4_transposed(address(5), x4);
  __syncwarp();
  for (int form = 0; form < 6; ++form) {
    for (int i = 0; i < 12; ++i) args.out[(form * 32 + lane) * 12 + i] = rows[form][lane * 12 + i];
  }
}

}  // namespace fovea::cuda_test
