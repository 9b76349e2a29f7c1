// SPDX-License-Identifier: Apache-2.0
// Three warpgroups: the first gives registers up and passes the words of in ([256]) on through shared memory, the
// others take them and keep 200 values at once: out[t] = the last of x, 3 x + 1, 3 (3 x + 1) + 2, ... xored with all
// before it.
#pragma once

#include "backend/cuda/kernels/ptx/mbarrier.cuh"
#include "backend/cuda/kernels/ptx/registers.cuh"
#include "cuda/kernels/args.h"

namespace fovea::cuda_test {

extern "C" __global__ void __launch_bounds__(384, 1) registers(const __grid_constant__ WordsArgs args) {
  __shared__ u32_t passed[256];
  __shared__ alignas(8) u64_t word;
  const int t = static_cast<int>(threadIdx.x);
  const unsigned barrier = ptx::shared_address(&word);
  if (t == 0) ptx::barrier_init(barrier, 128);
  __syncthreads();
  if (t < 128) {
    ptx::registers_down_to<40>();
    passed[t] = args.in[t];
    passed[128 + t] = args.in[128 + t];
    ptx::barrier_arrive(barrier);
    return;
  }
  ptx::registers_up_to<232>();
  ptx::barrier_wait(barrier, 0);
  u32_t values[200];
  values[0] = passed[t - 128];
  for (int i = 1; i < 200; ++i) values[i] = values[i - 1] * 3 + static_cast<u32_t>(i);
  // Through memory that the compiler knows nothing of, all 200 are alive here.
  for (int i = 0; i < 200; ++i) asm volatile("" : "+r"(values[i]));
  u32_t sum = 0;
  for (int i = 199; i >= 0; --i) sum = sum * 5 + values[i];
  args.out[t - 128] = sum;
}

}  // namespace fovea::cuda_test
