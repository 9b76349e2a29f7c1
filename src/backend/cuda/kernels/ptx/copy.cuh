// SPDX-License-Identifier: Apache-2.0
// Asynchronous copies of a thread from global to shared memory, SM80 on. PTX ISA 9.7.9.25.3 (cp.async).
//
// Of the 4, 8 or 16 bytes at the shared address, which must be a multiple of as many, the first `bytes` come from
// global memory and the rest become zeros; no global byte past `bytes` is read, so with 0 `from` need only be a
// pointer.
#pragma once

#include "backend/cuda/kernels/ptx/address.cuh"

namespace fovea::ptx {

// Cached in L1 and L2: the only form for 4 and 8 bytes.
__device__ inline void copy_async_4(unsigned to, const void* from, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
__device__ inline void copy_async_8(unsigned to, const void* from, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
// Cached in L2 only, 128 bytes at a time.
__device__ inline void copy_async_16(unsigned to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
__device__ inline void copy_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Waits until at most `pending` of this thread's groups are under way.
template <int pending>
__device__ inline void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

}  // namespace fovea::ptx
