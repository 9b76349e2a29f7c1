// SPDX-License-Identifier: Apache-2.0
// Descriptions of tensors for the TMA unit (SM90 on), encoded by the driver on the host: no device memory is read.
#pragma once

#include <cstdint>

#include "backend/cuda/driver.h"
#include "shared/tensor_map.h"

namespace fovea::cuda {

// Dimension 0 is the innermost; its elements lie side by side.
struct TensorMapSpec {
  static constexpr int kMaxRank = 5;
  const void* base = nullptr;      // device memory, aligned to 16 bytes
  int element_bytes = 2;           // 1, 2, 4 or 8
  int rank = 0;                    // 2 to 5
  int64_t sizes[kMaxRank] = {};    // elements, from 1 to 2^32 - 1
  int64_t strides[kMaxRank] = {};  // bytes from one index of a dimension to the next; [0] is not looked at.
                                   // Multiples of 16 from 16 to below 2^40
  int32_t box[kMaxRank] = {};      // elements of one copy, from 1 to 256; the innermost are a multiple of 16 bytes
  Swizzle swizzle = Swizzle::none;
};

// INVALID_VALUE names what the unit cannot describe.
Status check_tensor_map(const TensorMapSpec& spec);
// Checks, then encodes. The map holds the address: it is good as long as the memory is.
Status encode_tensor_map(const Driver& driver, const TensorMapSpec& spec, TensorMap& out);

}  // namespace fovea::cuda
