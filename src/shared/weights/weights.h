// SPDX-License-Identifier: Apache-2.0
// The weight types of matmul and embed, and one weight of a row: the definition that fast paths are tested against.
// A block type is one header here and one row in each list below. Freestanding.
#pragma once

#include "shared/view.h"
#include "shared/weights/q4_1.h"
#include "shared/weights/q8_0.h"

namespace fovea {

inline constexpr int kWeightTypes[] = {
    static_cast<int>(Dtype::f32),  static_cast<int>(Dtype::f16),  static_cast<int>(Dtype::bf16),
    static_cast<int>(Dtype::q4_1), static_cast<int>(Dtype::q8_0),
};

static_assert(dtype_block(Dtype::q4_1) == Q4_1::kWeights && dtype_block_bytes(Dtype::q4_1) == Q4_1::kBytes);
static_assert(dtype_block(Dtype::q8_0) == Q8_0::kWeights && dtype_block_bytes(Dtype::q8_0) == Q8_0::kBytes);

// Weight k of a row of packed weights.
inline float weight_at(const void* row, Dtype type, i64_t k) {
  const auto* bytes = static_cast<const u8_t*>(row);
  if (type == Dtype::q4_1) return Q4_1::weight(bytes + k / Q4_1::kWeights * Q4_1::kBytes, k % Q4_1::kWeights);
  if (type == Dtype::q8_0) return Q8_0::weight(bytes + k / Q8_0::kWeights * Q8_0::kBytes, k % Q8_0::kWeights);
  return float_at(static_cast<const char*>(row) + k * dtype_block_bytes(type), type);
}

}  // namespace fovea
