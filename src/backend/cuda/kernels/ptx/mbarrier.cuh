// SPDX-License-Identifier: Apache-2.0
// Barriers that live in shared memory: 8 bytes, aligned to 8, named by their shared address.
//
//   state       phase (its parity alternates 0, 1, 0, ...) | arrivals still expected | bytes still expected
//   complete    when both counts are zero: the phase ends, the arrivals are expected anew, the next phase begins
//   waiting     for the parity of a phase: true once that phase is over. On a new barrier, parity 1 counts as over,
//               which lets a producer's first wait for "empty" pass
//
// Other threads of the block may use a barrier after its init and __syncthreads, other blocks of the cluster and the
// copies of bulk.cuh after fence_barrier_init and a barrier of the cluster. PTX ISA 9.7.13 (mbarrier).
#pragma once

#include "backend/cuda/kernels/ptx/address.cuh"

namespace fovea::ptx {

// SM80 on, one thread.
__device__ inline void barrier_init(unsigned barrier, int arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
// Its memory may hold something else from here on.
__device__ inline void barrier_invalidate(unsigned barrier) {
  asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(barrier) : "memory");
}
// One arrival; what this thread wrote before is seen by those who wait.
__device__ inline void barrier_arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// Whether the phase is over, without waiting.
__device__ inline bool barrier_test(unsigned barrier, int parity) {
  unsigned over;
  asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.parity.shared.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
               : "=r"(over)
               : "r"(barrier), "r"(parity)
               : "memory");
  return over != 0;
}
// One arrival, once all cp.async of this thread so far are complete; it does not raise the count of the phase.
__device__ inline void barrier_arrive_after_copies(unsigned barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
}

// SM90 on. Whether the phase is over; the thread may sleep a while until it is.
__device__ inline bool barrier_try(unsigned barrier, int parity) {
  unsigned over;
  asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
               : "=r"(over)
               : "r"(barrier), "r"(parity)
               : "memory");
  return over != 0;
}
// Waits for the end of the phase: the loop that try_wait is made for.
__device__ inline void barrier_wait(unsigned barrier, int parity) {
  while (!barrier_try(barrier, parity)) {
  }
}
// The phase waits for as many more bytes.
__device__ inline void barrier_expect_bytes(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared.b64 [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
// The same, then one arrival.
__device__ inline void barrier_arrive_expect_bytes(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
// One arrival at a barrier of another block: its address is one of cluster_address (cluster.cuh).
__device__ inline void barrier_arrive_cluster(unsigned cluster_barrier) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(cluster_barrier) : "memory");
}
// Makes inits of this thread visible to the cluster and to bulk copies. PTX ISA 9.7.13 (fence.mbarrier_init).
__device__ inline void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
// Ordinary writes to shared memory come before what bulk copies and wgmma read there. PTX ISA 9.7.13 (fence.proxy).
__device__ inline void fence_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace fovea::ptx
