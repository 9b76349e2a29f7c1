// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/cuda/kernels/ptx/mma_sm75.cuh"
#include "cuda/kernels/mma.cuh"

namespace fovea::cuda_test {

extern "C" __global__ void mma_m16n8k8_f16(const __grid_constant__ ProductArgs args) {
  run_m16n8<16, float>(args, [](auto& d, auto& a, auto& b) { ptx::mma_m16n8k8_f16(d, a, b[0]); });
}

}  // namespace fovea::cuda_test
