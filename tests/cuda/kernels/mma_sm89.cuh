// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/cuda/kernels/ptx/mma_sm89.cuh"
#include "cuda/kernels/mma.cuh"

namespace fovea::cuda_test {

extern "C" __global__ void mma_m16n8k32_e4m3(const __grid_constant__ ProductArgs args) {
  run_m16n8<32, float>(args, [](auto& d, auto& a, auto& b) { ptx::mma_m16n8k32_e4m3(d, a, b[0], b[1]); });
}
extern "C" __global__ void mma_m16n8k32_e5m2(const __grid_constant__ ProductArgs args) {
  run_m16n8<32, float>(args, [](auto& d, auto& a, auto& b) { ptx::mma_m16n8k32_e5m2(d, a, b[0], b[1]); });
}

}  // namespace fovea::cuda_test
