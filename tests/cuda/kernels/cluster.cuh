// SPDX-License-Identifier: Apache-2.0
// Clusters of any size, blocks of 32 threads. Each block holds in[block][32] in shared memory; out [blocks][4][32]:
// the words of the next block of the cluster read from there, the words that the previous block wrote here, then rank,
// number of blocks and id of the cluster in turn, and the words of the next but one, received after its arrival at a
// barrier that lives here.
#pragma once

#include "backend/cuda/kernels/ptx/cluster.cuh"
#include "backend/cuda/kernels/ptx/mbarrier.cuh"
#include "cuda/kernels/args.h"

namespace fovea::cuda_test {

extern "C" __global__ void cluster(const __grid_constant__ WordsArgs args) {
  __shared__ u32_t own[32], received[32], late[32];
  __shared__ alignas(8) u64_t word;
  const unsigned t = threadIdx.x, rank = ptx::cluster_rank(), blocks = ptx::cluster_blocks();
  const unsigned barrier = ptx::shared_address(&word);
  own[t] = args.in[blockIdx.x * 32 + t];
  if (t == 0) {
    ptx::barrier_init(barrier, 32);
    ptx::fence_barrier_init();
  }
  ptx::cluster_arrive();
  ptx::cluster_wait();
  const unsigned next = (rank + 1) % blocks, before_last = (rank + 2 * blocks - 2) % blocks;
  u32_t* const out = args.out + blockIdx.x * 4 * 32;
  out[t] = ptx::load_cluster(ptx::cluster_address(ptx::shared_address(own + t), next));
  ptx::store_cluster(ptx::cluster_address(ptx::shared_address(received + t), next), own[t] + 1);
  ptx::store_cluster(ptx::cluster_address(ptx::shared_address(late + t), before_last), own[t] + 2);
  ptx::barrier_arrive_cluster(ptx::cluster_address(barrier, before_last));
  ptx::cluster_arrive();
  ptx::cluster_wait();
  ptx::barrier_wait(barrier, 0);
  out[32 + t] = received[t];
  out[64 + t] = t % 3 == 0 ? rank : t % 3 == 1 ? blocks : ptx::cluster_id_x();
  out[96 + t] = late[t];
  ptx::cluster_arrive();
  ptx::cluster_wait();
}

}  // namespace fovea::cuda_test
