// SPDX-License-Identifier: Apache-2.0
// d = c + a b by `steps` instructions, operands as the host laid them out for shared memory. One block of 128 threads,
// dynamic shared memory bytes_a + bytes_b + 1024. config::n; config::type 0 f16, 1 bf16, 2 e4m3; config::registers: A
// by registers; config::ta, tb: transpose.
#pragma once

#include "backend/cuda/kernels/ptx/mbarrier.cuh"
#include "backend/cuda/kernels/ptx/wgmma_products.cuh"
#include "cuda/kernels/mma.cuh"

namespace fovea::cuda_test {

extern "C" __global__ void __launch_bounds__(128) wgmma(const __grid_constant__ WgmmaArgs args) {
  extern __shared__ u8_t dynamic[];
  constexpr int n = config::n;
  const int t = static_cast<int>(threadIdx.x), g = t % 32 / 4, c = t % 4, rows = t / 32 * 16;
  u8_t* const slots = dynamic + (1024 - ptx::shared_address(dynamic) % 1024) % 1024;
  for (int i = t; i < args.bytes_a; i += 128) slots[i] = args.image_a[i];
  for (int i = t; i < args.bytes_b; i += 128) slots[args.bytes_a + i] = args.image_b[i];
  ptx::fence_async_shared();
  __syncthreads();
  const unsigned address = ptx::shared_address(slots);
  const u64_t a_at = ptx::wgmma_descriptor(address, args.leading_a, args.stride_a, args.swizzle);
  const u64_t b_at = ptx::wgmma_descriptor(address + args.bytes_a, args.leading_b, args.stride_b, args.swizzle);
  float d[n / 2];
  const auto place = [&](int i) { return (rows + g + (i & 2) * 4) * n + i / 4 * 8 + 2 * c + (i & 1); };
  for (int i = 0; i < n / 2; ++i) d[i] = args.c[place(i)];
  ptx::wgmma_touch(d);
  for (int step = 0; step < args.steps; ++step) {
    const int accumulate = args.accumulate != 0 || step != 0;
    const u64_t b = ptx::wgmma_advance(b_at, step * args.step_b);
    if constexpr (config::registers != 0) {
      unsigned a[4];
      for (int r = 0; r < 4; ++r) {
        a[r] = word_at(args.rows_a + (rows + g + r % 2 * 8) * args.steps * 32 + step * 32 + r / 2 * 16 + 4 * c);
      }
      ptx::wgmma_fence();
      if constexpr (config::type == 0) ptx::wgmma_f16_rs<config::tb>(d, a, b, accumulate);
      if constexpr (config::type == 1) ptx::wgmma_bf16_rs<config::tb>(d, a, b, accumulate);
      if constexpr (config::type == 2) ptx::wgmma_e4m3_rs(d, a, b, accumulate);
    } else {
      const u64_t a = ptx::wgmma_advance(a_at, step * args.step_a);
      ptx::wgmma_fence();
      if constexpr (config::type == 0) ptx::wgmma_f16_ss<config::ta, config::tb>(d, a, b, accumulate);
      if constexpr (config::type == 1) ptx::wgmma_bf16_ss<config::ta, config::tb>(d, a, b, accumulate);
      if constexpr (config::type == 2) ptx::wgmma_e4m3_ss(d, a, b, accumulate);
    }
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>();
    ptx::wgmma_touch(d);
  }
  for (int i = 0; i < n / 2; ++i) args.d[place(i)] = d[i];
}

}  // namespace fovea::cuda_test
