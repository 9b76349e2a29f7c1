// SPDX-License-Identifier: Apache-2.0
// What attention takes from SM70: mma.sync m8n8k4 in f16, and copies through registers.
#pragma once

#include "backend/cuda/kernels/family_before_sm80.cuh"

namespace fovea::family {

constexpr bool kQuadPairs = true;

}  // namespace fovea::family

#include "backend/cuda/kernels/attention_products_m8n8.cuh"
