// SPDX-License-Identifier: Apache-2.0
// A producer that lets its successor start at once and is late itself: `n` bytes from in to out, after a delay in which
// a successor that does not wait has read what lay there before.
#pragma once

#include "backend/cuda/kernels/ptx/dependent.cuh"
#include "cuda/kernels/args.h"

namespace fovea::cuda_test {

extern "C" __global__ void slow_copy(const __grid_constant__ BytesArgs args) {
  ptx::let_next_grid_start();
  ptx::wait_for_grids_ahead();
  const i64_t start = clock64();
  while (clock64() - start < 1000000) {
  }
  const i64_t step = static_cast<i64_t>(gridDim.x) * blockDim.x;
  for (i64_t i = static_cast<i64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < args.n; i += step) {
    args.out[i] = args.in[i];
  }
}

}  // namespace fovea::cuda_test
