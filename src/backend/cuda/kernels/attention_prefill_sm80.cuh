// SPDX-License-Identifier: Apache-2.0
// attention, many rows, SM80 and later.
#pragma once

#include "backend/cuda/kernels/family_sm80.cuh"

// Made of the family.
#include "backend/cuda/kernels/attention_prefill_plain.cuh"

namespace fovea {

extern "C" __global__ void __launch_bounds__(kThreads, config::blocks_per_sm)
    attention_prefill_sm80(const __grid_constant__ AttentionCudaArgs g) {
  attention_prefill(g);
}

}  // namespace fovea
