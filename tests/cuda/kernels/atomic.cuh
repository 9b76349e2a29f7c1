// SPDX-License-Identifier: Apache-2.0
// Blocks of 128 threads that hand their words to whichever ends last: out[block][t] = 3 in[block][t] + 1, and behind
// all rows out[blocks][t] is their sum. out[blocks + 1][0] is the counter: zero before, and the number of blocks after.
#pragma once

#include "backend/cuda/kernels/ptx/atomic.cuh"
#include "cuda/kernels/args.h"

namespace fovea::cuda_test {

extern "C" __global__ void last_block_sums(const __grid_constant__ WordsArgs args) {
  __shared__ unsigned before;
  const u32_t t = threadIdx.x, blocks = gridDim.x;
  args.out[blockIdx.x * 128 + t] = 3 * args.in[blockIdx.x * 128 + t] + 1;
  __syncthreads();
  if (t == 0) before = ptx::add_acquire_release(args.out + (blocks + 1) * 128, 1);
  __syncthreads();
  if (before + 1 != blocks) return;
  u32_t sum = 0;
  for (u32_t block = 0; block < blocks; ++block) sum += __ldcg(args.out + block * 128 + t);
  args.out[blocks * 128 + t] = sum;
}

}  // namespace fovea::cuda_test
