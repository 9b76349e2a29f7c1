// SPDX-License-Identifier: Apache-2.0
// As convert.cuh; a word that goes to a pair is its low half, and the word with the other sign its high half.
#pragma once

#include "backend/cuda/kernels/ptx/convert_fp8.cuh"
#include "cuda/kernels/convert.cuh"

namespace fovea::cuda_test {

extern "C" __global__ void pack_f16(const __grid_constant__ WordsArgs args) {
  each_word(args, [](u32_t x) { return ptx::pack_f16(float_of_bits(x), float_of_bits(x ^ 0x80000000u)); });
}
extern "C" __global__ void pack_bf16(const __grid_constant__ WordsArgs args) {
  each_word(args, [](u32_t x) { return ptx::pack_bf16(float_of_bits(x), float_of_bits(x ^ 0x80000000u)); });
}
extern "C" __global__ void bf16x2_of_e4m3x2(const __grid_constant__ WordsArgs args) {
  each_word(args, [](u32_t x) { return ptx::bf16x2_of_e4m3x2(static_cast<u16_t>(x)); });
}

}  // namespace fovea::cuda_test
