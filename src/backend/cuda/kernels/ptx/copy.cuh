// SPDX-License-Identifier: Apache-2.0
// Asynchronous copies from global to shared memory, SM80 on. PTX ISA 9.7.9.25.
#pragma once

namespace fovea::ptx {

__device__ inline unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// 16 bytes to a 16-byte aligned shared address; `bytes` of them are read (0 or 16), the rest become zeros.
// Caches in L2 only.
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
