// SPDX-License-Identifier: Apache-2.0
// Products of a warpgroup (128 threads, its first a multiple of 128), sm_90a only: D (64 x N) += A (64 x k) B (k x N),
// with A in registers or in shared memory and B in shared memory. PTX ISA 9.7.15 (wgmma).
//
//   k = 16 of f16 and bf16, k = 32 of e4m3: 32 bytes. Warp w, lane l; g = l / 4, c = l % 4; rows of warp w: R = 16 w
//   D, f32     d[4j], d[4j+1] = D[R+g][8j+2c, +1]    d[4j+2], d[4j+3] = D[R+g+8][8j+2c, +1]      0 <= j < N / 8
//   A          a0 .. a3 as of mma_sm80.cuh, with rows R more
//
//   D          columns 0..7    8..15   ...          so each 16x8 block of a warp's D is laid out like D of mma.sync,
//     rows  0..15 warp 0                            and two such blocks, rounded in pairs, are A of the next product
//     rows 16..31 warp 1
//     rows 32..47 warp 2
//     rows 48..63 warp 3
//
// Order of things: write shared memory, fence_async_shared (or load by TMA and wait for its barrier), barrier of the
// warpgroup; wgmma_fence; products; wgmma_commit; wgmma_wait; only then are d, and a of registers, touched again.
//
// The products are in wgmma_products.cuh.
#pragma once

#include "backend/cuda/kernels/ptx/address.cuh"
#include "shared/convert.h"
#include "shared/tensor_map.h"

namespace fovea::ptx {

// Before the first product, and after registers of d or a were written. PTX ISA 9.7.15.7 (wgmma.fence).
__device__ inline void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
// Ends a group of products. PTX ISA 9.7.15.7 (wgmma.commit_group).
__device__ inline void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Waits until at most `pending` groups are under way. PTX ISA 9.7.15.7 (wgmma.wait_group).
template <int pending>
__device__ inline void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}
// No instruction: the compiler takes d as written here, so that it moves no use of it across. Put it after wgmma_wait,
// and before wgmma_fence where d was written by other code.
template <int n>
__device__ inline void wgmma_touch(float (&d)[n]) {
  for (int i = 0; i < n; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// An operand in shared memory. "Rows" are of M for A and of N for B. PTX ISA 9.7.15.5 (matrix descriptor).
//
//   bits 0..13 address / 16 | 16..29 leading / 16 | 32..45 stride / 16 | 49..51 base offset, 0 | 62..63 swizzle
//
// k innermost ("K-major", transpose 0). S = 128, 64 or 32 bytes of k lie together, as a TMA box of S bytes by the rows
// puts them: byte (row, b) of k at swizzled(S, row S + b), of a tile aligned to 8 S bytes.
//     stride   from 8 rows to the next 8: 8 S        leading   not used
//     a product takes 32 of the S bytes: the next one's address is 32 more, swizzle or not
//   Without swizzle: cores of 8 rows x 16 bytes, each 128 bytes in a row.
//     stride   from 8 rows to the next 8             leading   from 16 bytes of k to the next 16
//     the next product's address is 2 leadings more
//
// Rows innermost ("MN-major", transpose 1, 16-bit types only): V as it lies, B's N being the head dim. S bytes of rows
// lie together: element (k, row) at swizzled(S, k S + 2 row) within S / 2 rows, of 8 k or more.
//     stride   from 8 k to the next 8                leading   from S / 2 rows to the next S / 2
//     a product takes 16 k: the next one's address is 2 strides more
//   Without swizzle: cores of 8 k x 16 bytes of rows, each 128 bytes in a row.
//     stride   from 8 rows to the next 8             leading   from 8 k to the next 8
//     the next product's address is 2 leadings more
__device__ inline u64_t wgmma_descriptor(unsigned address, unsigned leading, unsigned stride, Swizzle swizzle) {
  const u64_t code = swizzle == Swizzle::none      ? 0
                     : swizzle == Swizzle::span128 ? 1
                     : swizzle == Swizzle::span64  ? 2
                                                   : 3;
  return (address & 0x3FFFFu) >> 4 | static_cast<u64_t>((leading & 0x3FFFFu) >> 4) << 16 |
         static_cast<u64_t>((stride & 0x3FFFFu) >> 4) << 32 | code << 62;
}
// The same operand, `bytes` further; they are a multiple of 16.
__device__ inline u64_t wgmma_advance(u64_t descriptor, unsigned bytes) {
  return descriptor + (bytes >> 4);
}

}  // namespace fovea::ptx
