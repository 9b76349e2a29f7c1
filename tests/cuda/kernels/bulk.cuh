// SPDX-License-Identifier: Apache-2.0
// Copies by the TMA unit, SM90. One block of 32 threads.
#pragma once

#include "backend/cuda/kernels/ptx/bulk.cuh"
#include "backend/cuda/kernels/ptx/mbarrier.cuh"
#include "cuda/kernels/args.h"

namespace fovea::cuda_test {

// n bytes to shared memory, 0xAA before, in two loads that one barrier waits for (one by an expectation of its own);
// all 4096 bytes to out by plain writes, then the n bytes once more to out + 4096 by a bulk store. out[8192..8194]:
// whether the phase was over before the loads, after them, and the next one.
extern "C" __global__ void bulk_copy(const __grid_constant__ BytesArgs args) {
  __shared__ alignas(128) u8_t slots[4096];
  __shared__ alignas(8) u64_t word;
  const unsigned barrier = ptx::shared_address(&word), to = ptx::shared_address(slots);
  for (int i = static_cast<int>(threadIdx.x); i < 4096; i += 32) slots[i] = 0xAA;
  if (threadIdx.x == 0) {
    ptx::barrier_init(barrier, 1);
    ptx::fence_barrier_init();
  }
  ptx::fence_async_shared();
  __syncthreads();
  const unsigned n = static_cast<unsigned>(args.n), first = n / 32 * 16;
  if (threadIdx.x == 0) {
    args.out[8192] = ptx::barrier_test(barrier, 0);
    ptx::barrier_expect_bytes(barrier, first);
    ptx::barrier_arrive_expect_bytes(barrier, n - first);
    if (first != 0) ptx::load_bulk(to, args.in, first, barrier);
    if (n != first) ptx::load_bulk(to + first, args.in + first, n - first, barrier);
  }
  ptx::barrier_wait(barrier, 0);
  if (threadIdx.x == 0) {
    args.out[8193] = ptx::barrier_test(barrier, 0);
    args.out[8194] = ptx::barrier_test(barrier, 1);
  }
  for (int i = static_cast<int>(threadIdx.x); i < 4096; i += 32) args.out[i] = slots[i];
  if (threadIdx.x == 0) {
    if (n != 0) ptx::store_bulk(args.out + 4096, to, n);
    ptx::store_bulk_commit();
    ptx::store_bulk_wait_read<0>();
    ptx::store_bulk_wait<0>();
  }
}

// Both kernels have config::rank coordinates and box_bytes + 1024 of dynamic shared memory: the box, aligned to 1024 as
// the widest swizzle asks.
__device__ inline u8_t* box_in(u8_t* dynamic) {
  return dynamic + (1024 - ptx::shared_address(dynamic) % 1024) % 1024;
}

// A box of the tensor to shared memory, 0xAA before, and from there to args.box by plain writes.
extern "C" __global__ void tensor_load(const __grid_constant__ TensorCopyArgs args) {
  extern __shared__ u8_t dynamic[];
  __shared__ alignas(8) u64_t word;
  const unsigned barrier = ptx::shared_address(&word);
  u8_t* const slots = box_in(dynamic);
  const unsigned box = ptx::shared_address(slots);
  for (int i = static_cast<int>(threadIdx.x); i < args.box_bytes; i += 32) slots[i] = 0xAA;
  if (threadIdx.x == 0) {
    ptx::prefetch_tensor_map(&args.map);
    ptx::barrier_init(barrier, 1);
    ptx::fence_barrier_init();
  }
  ptx::fence_async_shared();
  __syncthreads();
  const int x = args.at[0], y = args.at[1], z = args.at[2], w = args.at[3], v = args.at[4];
  if (threadIdx.x == 0) {
    ptx::barrier_arrive_expect_bytes(barrier, static_cast<unsigned>(args.box_bytes));
    if constexpr (config::rank == 2) ptx::load_tensor_2d(box, &args.map, barrier, x, y);
    if constexpr (config::rank == 3) ptx::load_tensor_3d(box, &args.map, barrier, x, y, z);
    if constexpr (config::rank == 4) ptx::load_tensor_4d(box, &args.map, barrier, x, y, z, w);
    if constexpr (config::rank == 5) ptx::load_tensor_5d(box, &args.map, barrier, x, y, z, w, v);
  }
  ptx::barrier_wait(barrier, 0);
  for (int i = static_cast<int>(threadIdx.x); i < args.box_bytes; i += 32) args.box[i] = slots[i];
}

// args.box to shared memory by plain writes, and from there to the tensor.
extern "C" __global__ void tensor_store(const __grid_constant__ TensorCopyArgs args) {
  extern __shared__ u8_t dynamic[];
  u8_t* const slots = box_in(dynamic);
  const unsigned box = ptx::shared_address(slots);
  for (int i = static_cast<int>(threadIdx.x); i < args.box_bytes; i += 32) slots[i] = args.box[i];
  ptx::fence_async_shared();
  __syncthreads();
  const int x = args.at[0], y = args.at[1], z = args.at[2], w = args.at[3], v = args.at[4];
  if (threadIdx.x == 0) {
    if constexpr (config::rank == 2) ptx::store_tensor_2d(&args.map, box, x, y);
    if constexpr (config::rank == 3) ptx::store_tensor_3d(&args.map, box, x, y, z);
    if constexpr (config::rank == 4) ptx::store_tensor_4d(&args.map, box, x, y, z, w);
    if constexpr (config::rank == 5) ptx::store_tensor_5d(&args.map, box, x, y, z, w, v);
    ptx::store_bulk_commit();
    ptx::store_bulk_wait<0>();
  }
}

}  // namespace fovea::cuda_test
