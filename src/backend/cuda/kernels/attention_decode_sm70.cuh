// SPDX-License-Identifier: Apache-2.0
// attention, few rows, SM70 and later.
#pragma once

#include "backend/cuda/kernels/family_sm70.cuh"

// Made of the family.
#include "backend/cuda/kernels/attention_decode_plain.cuh"

namespace fovea {

extern "C" __global__ void __launch_bounds__(kThreads, config::blocks_per_sm)
    attention_decode_sm70(const __grid_constant__ AttentionCudaArgs g) {
  attention_decode(g);
}

}  // namespace fovea
