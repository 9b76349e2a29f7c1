// SPDX-License-Identifier: Apache-2.0
// selftest: out[i] = scale * x[m(i)], where m mirrors i inside its block of `block` elements (and stays inside n).
// Grid: ceil(n / block) blocks of `block` threads. Shared memory: float tile[block].
#pragma once

#include "backend/cuda/kernels/ptx/dependent.cuh"
#include "shared/params/selftest.h"

namespace fovea {

extern "C" __global__ void __launch_bounds__(config::block) selftest(const __grid_constant__ SelftestArgs args) {
  extern __shared__ float tile[];
#if __CUDA_ARCH__ >= 900
  ptx::wait_for_grids_ahead();  // launched early, its inputs are there only now
#endif
  const i64_t first = static_cast<i64_t>(blockIdx.x) * config::block;
  const i64_t left = args.n - first;
  const int count = left < config::block ? static_cast<int>(left) : config::block;
  const int i = static_cast<int>(threadIdx.x);
  if (i < count) tile[i] = bf16_to_f32(args.x[first + i]);
  __syncthreads();
  if (i < count) args.out[first + i] = args.scale * tile[count - 1 - i];
}

}  // namespace fovea
