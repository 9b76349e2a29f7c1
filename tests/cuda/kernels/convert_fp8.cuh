// SPDX-License-Identifier: Apache-2.0
// As convert.cuh: fp8 by integers, on every card.
#pragma once

#include "backend/cuda/kernels/ptx/convert_fp8.cuh"
#include "cuda/kernels/convert.cuh"

namespace fovea::cuda_test {

extern "C" __global__ void f16x2_of_e4m3x2_by_integers(const __grid_constant__ WordsArgs args) {
  each_word(args, [](u32_t x) { return ptx::f16x2_of_e4m3x2_by_integers(static_cast<u16_t>(x)); });
}
extern "C" __global__ void e4m3x2_of_f16x2_by_integers(const __grid_constant__ WordsArgs args) {
  each_word(args, [](u32_t x) -> u32_t { return ptx::e4m3x2_of_f16x2_by_integers(x); });
}
// The scalar definition, compiled for the device.
extern "C" __global__ void e4m3_of_f32_shared(const __grid_constant__ WordsArgs args) {
  each_word(args, [](u32_t x) -> u32_t { return f32_to_e4m3(float_of_bits(x)); });
}

}  // namespace fovea::cuda_test
