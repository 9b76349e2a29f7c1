// SPDX-License-Identifier: Apache-2.0
// Thread t of 64 copies t % (size + 1) bytes of its 16 in `in` ([2][64][16]) by copies of 4, 8 and 16 bytes, in two
// groups whose ends are waited for one by one. out [3 sizes][2 groups][64][16]; shared memory is 0xAA before.
#pragma once

#include "backend/cuda/kernels/ptx/copy.cuh"
#include "cuda/kernels/args.h"

namespace fovea::cuda_test {

template <class Copy>
void copy_two_groups(const BytesArgs& args, u8_t* slots, u8_t* out, int size, Copy copy) {
  const int t = static_cast<int>(threadIdx.x);
  for (int i = 0; i < 32; ++i) slots[t * 32 + i] = 0xAA;
  __syncthreads();
  for (int group = 0; group < 2; ++group) {
    copy(ptx::shared_address(slots + (group * 64 + t) * 16), args.in + (group * 64 + t) * 16, t % (size + 1));
    ptx::copy_async_commit();
  }
  ptx::copy_async_wait<1>();
  for (int i = 0; i < 16; ++i) out[t * 16 + i] = slots[t * 16 + i];
  ptx::copy_async_wait<0>();
  for (int i = 0; i < 16; ++i) out[(64 + t) * 16 + i] = slots[(64 + t) * 16 + i];
  __syncthreads();
}

extern "C" __global__ void copy_async(const __grid_constant__ BytesArgs args) {
  __shared__ alignas(16) u8_t slots[2 * 64 * 16];
  copy_two_groups(args, slots, args.out, 4,
                  [](unsigned to, const u8_t* from, int n) { ptx::copy_async_4(to, from, n); });
  copy_two_groups(args, slots, args.out + 2048, 8,
                  [](unsigned to, const u8_t* from, int n) { ptx::copy_async_8(to, from, n); });
  copy_two_groups(args, slots, args.out + 4096, 16,
                  [](unsigned to, const u8_t* from, int n) { ptx::copy_async_16(to, from, n); });
}

}  // namespace fovea::cuda_test
