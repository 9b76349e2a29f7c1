// SPDX-License-Identifier: Apache-2.0
// For kernels of every architecture: packing without an instruction for it.
#pragma once

#include "shared/convert.h"
#include "shared/dtype.h"

namespace fovea::family {

template <Dtype kind>
inline unsigned pack(float low, float high) {
  if constexpr (kind == Dtype::bf16) {
    return f32_to_bf16(low) | static_cast<unsigned>(f32_to_bf16(high)) << 16;
  } else {
    return f32_to_f16(low) | static_cast<unsigned>(f32_to_f16(high)) << 16;
  }
}

}  // namespace fovea::family
