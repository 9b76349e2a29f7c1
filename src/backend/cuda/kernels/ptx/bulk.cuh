// SPDX-License-Identifier: Apache-2.0
// Copies that one thread starts and the TMA unit makes, SM90 on.
//
// Loads end at a barrier of mbarrier.cuh, which must expect their bytes: a load that reaches past its tensor counts its
// full box, for the elements outside become zeros. Stores end by groups of the thread that started them, after
// fence_async_shared made the data visible; rows and planes outside the tensor are not written.
//
// A box lies in shared memory row after row, the first dimension innermost, aligned to 128 bytes; shared/tensor_map.h
// says where a swizzled byte lies. Coordinates are in elements, dimension 0 first. The caller sees to this, or the
// context ends with an illegal instruction, or bytes are overwritten:
// - The first coordinate is a multiple of 16 bytes (loads and stores).
// - Loads may start before the tensor; of a store no coordinate is negative (CUDA programming guide, "Using TMA to
//   transfer multi-dimensional arrays").
// - Stores write pieces of 16 bytes: where a row of the tensor ends within a piece, the rest of the piece is
//   overwritten too. A tensor that is stored to has rows of whole pieces, or nothing of worth behind them.
#pragma once

#include "backend/cuda/kernels/ptx/address.cuh"
#include "shared/tensor_map.h"

namespace fovea::ptx {

// `bytes` is a multiple of 16, as are both addresses. PTX ISA 9.7.9.25.4 (cp.async.bulk).
__device__ inline void load_bulk(unsigned to, const void* from, unsigned bytes, unsigned barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}
__device__ inline void store_bulk(void* to, unsigned from, unsigned bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes)
               : "memory");
}
// Ends a group of stores. PTX ISA 9.7.9.25 (cp.async.bulk.commit_group).
__device__ inline void store_bulk_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Waits until at most `pending` groups are incomplete: until shared memory was read, or until all is written.
template <int pending>
__device__ inline void store_bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(pending) : "memory");
}
template <int pending>
__device__ inline void store_bulk_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(pending) : "memory");
}

// The map is a member of the kernel's __grid_constant__ parameter. PTX ISA 9.7.9 (prefetch.tensormap).
__device__ inline void prefetch_tensor_map(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// PTX ISA 9.7.9.25.5 (cp.async.bulk.tensor).
__device__ inline void load_tensor_2d(unsigned to, const TensorMap* map, unsigned barrier, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::
          "r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y)
      : "memory");
}
__device__ inline void load_tensor_3d(unsigned to, const TensorMap* map, unsigned barrier, int x, int y, int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], "
      "[%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z)
      : "memory");
}
__device__ inline void load_tensor_4d(unsigned to, const TensorMap* map, unsigned barrier, int x, int y, int z, int w) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w)
      : "memory");
}
__device__ inline void load_tensor_5d(unsigned to, const TensorMap* map, unsigned barrier, int x, int y, int z, int w,
                                      int v) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, "
      "%7}], [%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w), "r"(v)
      : "memory");
}
__device__ inline void store_tensor_2d(const TensorMap* map, unsigned from, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map), "r"(from),
               "r"(x), "r"(y)
               : "memory");
}
__device__ inline void store_tensor_3d(const TensorMap* map, unsigned from, int x, int y, int z) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
               "r"(from), "r"(x), "r"(y), "r"(z)
               : "memory");
}
__device__ inline void store_tensor_4d(const TensorMap* map, unsigned from, int x, int y, int z, int w) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
               "r"(from), "r"(x), "r"(y), "r"(z), "r"(w)
               : "memory");
}
__device__ inline void store_tensor_5d(const TensorMap* map, unsigned from, int x, int y, int z, int w, int v) {
  asm volatile(
      "cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(map),
      "r"(from), "r"(x), "r"(y), "r"(z), "r"(w), "r"(v)
      : "memory");
}

}  // namespace fovea::ptx
