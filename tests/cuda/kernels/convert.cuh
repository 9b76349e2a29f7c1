// SPDX-License-Identifier: Apache-2.0
// Conversions and special functions on n words, one a thread. Blocks of 256 threads.
#pragma once

#include "backend/cuda/kernels/ptx/convert.cuh"
#include "cuda/kernels/args.h"

namespace fovea::cuda_test {

template <class F>
void each_word(const WordsArgs& args, F f) {
  const i64_t i = static_cast<i64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (i < args.n) args.out[i] = f(args.in[i]);
}

extern "C" __global__ void f16_of_f32(const __grid_constant__ WordsArgs args) {
  each_word(args, [](u32_t x) -> u32_t { return ptx::f16_of_f32(float_of_bits(x)); });
}
extern "C" __global__ void f32_of_f16(const __grid_constant__ WordsArgs args) {
  each_word(args, [](u32_t x) { return bits_of_float(ptx::f32_of_f16(static_cast<u16_t>(x))); });
}
extern "C" __global__ void exp2_approx(const __grid_constant__ WordsArgs args) {
  each_word(args, [](u32_t x) { return bits_of_float(ptx::exp2_approx(float_of_bits(x))); });
}
extern "C" __global__ void log2_approx(const __grid_constant__ WordsArgs args) {
  each_word(args, [](u32_t x) { return bits_of_float(ptx::log2_approx(float_of_bits(x))); });
}
extern "C" __global__ void rcp_approx(const __grid_constant__ WordsArgs args) {
  each_word(args, [](u32_t x) { return bits_of_float(ptx::rcp_approx(float_of_bits(x))); });
}

}  // namespace fovea::cuda_test
