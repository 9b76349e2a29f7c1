// SPDX-License-Identifier: Apache-2.0
// As convert.cuh: fp8 by the instructions of SM89.
#pragma once

#include "backend/cuda/kernels/widen.cuh"
#include "cuda/kernels/convert.cuh"

namespace fovea::cuda_test {

extern "C" __global__ void e4m3x2_of_f16x2(const __grid_constant__ WordsArgs args) {
  each_word(args, [](u32_t x) -> u32_t { return ptx::e4m3x2_of_f16x2(x); });
}
extern "C" __global__ void e4m3x2_of_f32(const __grid_constant__ WordsArgs args) {
  each_word(args,
            [](u32_t x) -> u32_t { return ptx::e4m3x2_of_f32(float_of_bits(x), float_of_bits(x ^ 0x80000000u)); });
}
extern "C" __global__ void f16x2_of_e4m3x2(const __grid_constant__ WordsArgs args) {
  each_word(args, [](u32_t x) { return ptx::f16x2_of_e4m3x2(static_cast<u16_t>(x)); });
}
extern "C" __global__ void f16x2_of_e5m2x2(const __grid_constant__ WordsArgs args) {
  each_word(args, [](u32_t x) { return ptx::f16x2_of_e5m2x2(static_cast<u16_t>(x)); });
}
// What attention makes of those; both pairs of a word are the same here.
extern "C" __global__ void widen_bf16(const __grid_constant__ WordsArgs args) {
  each_word(args, [](u32_t x) {
    unsigned low, high;
    widen_e4m3<Dtype::bf16>(x << 16 | (x & 0xFFFFu), low, high);
    return low == high ? low : 0xDEADu;
  });
}

}  // namespace fovea::cuda_test
