// SPDX-License-Identifier: Apache-2.0
// As mma.cuh says, by quad-pairs: four products a warp, so A, B, C and D of a block are four of each.
#pragma once

#include "backend/cuda/kernels/ptx/mma_sm70.cuh"
#include "cuda/kernels/mma.cuh"

namespace fovea::cuda_test {

template <bool row_b>
void run_m8n8k4(const ProductArgs& args) {
  const int lane = static_cast<int>(threadIdx.x), upper = lane < 16 ? 0 : 4, r = lane % 4 + upper;
  const i64_t product = static_cast<i64_t>(blockIdx.x) * 4 + lane % 16 / 4;
  const u8_t* a_rows = args.a + product * 8 * 4 * 2;
  const u8_t* b_rows = args.b + product * 8 * 4 * 2 + (row_b ? (lane % 4) * 16 + upper * 2 : r * 8);
  const unsigned a[2] = {word_at(a_rows + r * 8), word_at(a_rows + r * 8 + 4)};
  const unsigned b0 = word_at(b_rows), b1 = word_at(b_rows + 4);
  float d[8];
  const auto place = [&](int i) {
    return product * 64 + (upper + (lane & 1) + (i & 2)) * 8 + (i & 4) + (lane & 2) + (i & 1);
  };
  for (int i = 0; i < 8; ++i) d[i] = float_of_bits(args.c[place(i)]);
  if constexpr (row_b) {
    ptx::mma_m8n8k4_f16_row(d, a, b0, b1);
  } else {
    ptx::mma_m8n8k4_f16(d, a, b0, b1);
  }
  for (int i = 0; i < 8; ++i) args.d[place(i)] = bits_of_float(d[i]);
}

extern "C" __global__ void mma_m8n8k4_f16(const __grid_constant__ ProductArgs args) {
  run_m8n8k4<false>(args);
}
extern "C" __global__ void mma_m8n8k4_f16_row(const __grid_constant__ ProductArgs args) {
  run_m8n8k4<true>(args);
}

}  // namespace fovea::cuda_test
