// SPDX-License-Identifier: Apache-2.0
// attention, many rows, e4m3 queries on SM89 and later.
#pragma once

#include "backend/cuda/kernels/family_sm89.cuh"

// Made of the family.
#include "backend/cuda/kernels/attention_prefill_plain.cuh"

namespace fovea {

extern "C" __global__ void __launch_bounds__(kThreads, config::blocks_per_sm)
    attention_prefill_sm89(const __grid_constant__ AttentionCudaArgs g) {
  attention_prefill(g);
}

}  // namespace fovea
