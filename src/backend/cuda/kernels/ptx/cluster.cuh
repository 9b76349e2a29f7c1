// SPDX-License-Identifier: Apache-2.0
// Blocks that run together on neighbouring multiprocessors and see each other's shared memory, SM90 on. A launch
// without clusters is one of clusters of one block.
//
// No block may leave while another may still reach its shared memory: end with a barrier.
#pragma once

#include "backend/cuda/kernels/ptx/address.cuh"

namespace fovea::ptx {

// The block's place in its cluster, x innermost, and their number. PTX ISA 10 (%cluster_ctarank, %cluster_nctarank).
__device__ inline unsigned cluster_rank() {
  unsigned r;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return r;
}
__device__ inline unsigned cluster_blocks() {
  unsigned r;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(r));
  return r;
}
// The cluster's place in the grid along x. PTX ISA 10 (%clusterid).
__device__ inline unsigned cluster_id_x() {
  unsigned r;
  asm("mov.u32 %0, %%clusterid.x;" : "=r"(r));
  return r;
}

// All threads of all blocks: what they wrote before arriving is seen after waiting. PTX ISA 9.7.13 (barrier.cluster).
__device__ inline void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ inline void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Where the block of that rank has what lies at this block's shared address. PTX ISA 9.7.9 (mapa).
__device__ inline unsigned cluster_address(unsigned shared, unsigned rank) {
  unsigned r;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(shared), "r"(rank));
  return r;
}
// PTX ISA 9.7.9 (ld, st).
__device__ inline unsigned load_cluster(unsigned address) {
  unsigned r;
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(r) : "r"(address) : "memory");
  return r;
}
__device__ inline void store_cluster(unsigned address, unsigned value) {
  asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

}  // namespace fovea::ptx
