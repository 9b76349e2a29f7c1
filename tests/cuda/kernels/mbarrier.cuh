// SPDX-License-Identifier: Apache-2.0
// Phases of a barrier without any bytes, SM80. One block of 64 threads.
#pragma once

#include "backend/cuda/kernels/ptx/copy.cuh"
#include "backend/cuda/kernels/ptx/mbarrier.cuh"
#include "cuda/kernels/args.h"

namespace fovea::cuda_test {

// In each of ten phases every thread publishes in[phase][t], arrives, waits, and reads its neighbour's: out [10][64].
// Then out[640..643]: parity 1 of the new barrier, parity 0 of it, parity 0 with 63 of 64 arrivals, and with all.
extern "C" __global__ void mbarrier_phases(const __grid_constant__ WordsArgs args) {
  __shared__ alignas(8) u64_t barriers[2];
  __shared__ u32_t published[64];
  const int t = static_cast<int>(threadIdx.x);
  const unsigned full = ptx::shared_address(barriers), read = ptx::shared_address(barriers + 1);
  if (t == 0) {
    ptx::barrier_init(full, 64);
    ptx::barrier_init(read, 64);
    args.out[640] = ptx::barrier_test(full, 1);
    args.out[641] = ptx::barrier_test(full, 0);
  }
  __syncthreads();
  if (t != 0) ptx::barrier_arrive(full);
  __syncthreads();
  if (t == 0) {
    args.out[642] = ptx::barrier_test(full, 0);
    ptx::barrier_arrive(full);
    while (!ptx::barrier_test(full, 0)) {
    }
    args.out[643] = ptx::barrier_test(full, 0);
    ptx::barrier_invalidate(full);
    ptx::barrier_init(full, 64);
  }
  __syncthreads();
  for (int phase = 0; phase < 10; ++phase) {
    published[t] = args.in[phase * 64 + t];
    ptx::barrier_arrive(full);
    while (!ptx::barrier_test(full, phase & 1)) {
    }
    args.out[phase * 64 + t] = published[(t + 1) % 64];
    ptx::barrier_arrive(read);
    while (!ptx::barrier_test(read, phase & 1)) {
    }
  }
}

// A barrier that completes when the copies of all 64 threads have: out [64][4 words] = in, read by the next thread.
extern "C" __global__ void mbarrier_after_copies(const __grid_constant__ WordsArgs args) {
  __shared__ alignas(8) u64_t word;
  __shared__ alignas(16) u32_t slots[64 * 4];
  const int t = static_cast<int>(threadIdx.x), next = (t + 33) % 64;
  const unsigned barrier = ptx::shared_address(&word);
  if (t == 0) ptx::barrier_init(barrier, 64);
  __syncthreads();
  ptx::copy_async_16(ptx::shared_address(slots + t * 4), args.in + t * 4, 16);
  ptx::barrier_arrive_after_copies(barrier);
  while (!ptx::barrier_test(barrier, 0)) {
  }
  for (int i = 0; i < 4; ++i) args.out[next * 4 + i] = slots[next * 4 + i];
}

}  // namespace fovea::cuda_test
