// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/cuda/kernels/ptx/mma_sm75.cuh"
#include "backend/cuda/kernels/ptx/mma_sm80.cuh"
#include "cuda/kernels/mma.cuh"

namespace fovea::cuda_test {

extern "C" __global__ void mma_m16n8k8_bf16(const __grid_constant__ ProductArgs args) {
  run_m16n8<16, float>(args, [](auto& d, auto& a, auto& b) { ptx::mma_m16n8k8_bf16(d, a, b[0]); });
}
extern "C" __global__ void mma_m16n8k16_f16(const __grid_constant__ ProductArgs args) {
  run_m16n8<32, float>(args, [](auto& d, auto& a, auto& b) { ptx::mma_m16n8k16_f16(d, a, b[0], b[1]); });
}
extern "C" __global__ void mma_m16n8k16_bf16(const __grid_constant__ ProductArgs args) {
  run_m16n8<32, float>(args, [](auto& d, auto& a, auto& b) { ptx::mma_m16n8k16_bf16(d, a, b[0], b[1]); });
}
extern "C" __global__ void mma_m16n8k32_s8_s8(const __grid_constant__ ProductArgs args) {
  run_m16n8<32, int>(args, [](auto& d, auto& a, auto& b) { ptx::mma_m16n8k32_s8_s8(d, a, b[0], b[1]); });
}
extern "C" __global__ void mma_m16n8k32_u8_s8(const __grid_constant__ ProductArgs args) {
  run_m16n8<32, int>(args, [](auto& d, auto& a, auto& b) { ptx::mma_m16n8k32_u8_s8(d, a, b[0], b[1]); });
}
extern "C" __global__ void mma_m16n8k32_s8_u8(const __grid_constant__ ProductArgs args) {
  run_m16n8<32, int>(args, [](auto& d, auto& a, auto& b) { ptx::mma_m16n8k32_s8_u8(d, a, b[0], b[1]); });
}
extern "C" __global__ void mma_m16n8k32_u8_u8(const __grid_constant__ ProductArgs args) {
  run_m16n8<32, int>(args, [](auto& d, auto& a, auto& b) { ptx::mma_m16n8k32_u8_u8(d, a, b[0], b[1]); });
}

}  // namespace fovea::cuda_test
