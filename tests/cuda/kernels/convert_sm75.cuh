// SPDX-License-Identifier: Apache-2.0
// As convert.cuh.
#pragma once

#include "cuda/kernels/convert.cuh"

namespace fovea::cuda_test {

extern "C" __global__ void tanh_approx(const __grid_constant__ WordsArgs args) {
  each_word(args, [](u32_t x) { return bits_of_float(ptx::tanh_approx(float_of_bits(x))); });
}

}  // namespace fovea::cuda_test
