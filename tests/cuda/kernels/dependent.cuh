// SPDX-License-Identifier: Apache-2.0
// One link of a chain of early launches: out[i] = 3 in[i] + n, after a delay that would show a link that does not wait.
// Blocks of 128 threads; in and out may be the same.
#pragma once

#include "backend/cuda/kernels/ptx/dependent.cuh"
#include "cuda/kernels/args.h"

namespace fovea::cuda_test {

extern "C" __global__ void dependent(const __grid_constant__ WordsArgs args) {
  ptx::let_next_grid_start();
  ptx::wait_for_grids_ahead();
  const i64_t i = static_cast<i64_t>(blockIdx.x) * 128 + threadIdx.x;
  const u32_t x = args.in[i];
  const i64_t start = clock64();
  while (clock64() - start < 20000) {
  }
  args.out[i] = 3 * x + static_cast<u32_t>(args.n);
}

}  // namespace fovea::cuda_test
