// SPDX-License-Identifier: Apache-2.0
// What SM70 and SM75 have in common: copies through registers, and no instruction that packs.
#pragma once

#include "backend/cuda/kernels/copy_registers.cuh"
#include "backend/cuda/kernels/ptx/convert.cuh"
#include "shared/dtype.h"

namespace fovea::family {

constexpr bool kAsync = false;

// `bytes` from 0 to 16; the rest of the 16 become zeros. Both addresses are multiples of 16.
inline void copy_16(unsigned to, const void* from, int bytes) {
  *shared_16(to) = load_16(static_cast<const char*>(from), bytes, 16);
}
inline void copy_4(unsigned to, const void* from, int bytes) {
  const uint4 x = load_16(static_cast<const char*>(from), bytes, 4);
  *static_cast<unsigned*>(__cvta_shared_to_generic(to)) = x.x;
}
// Copies have ended when they return.
inline void commit() {}
template <int pending>
inline void wait() {}

template <Dtype kind>
inline unsigned pack(float low, float high) {
  if constexpr (kind == Dtype::bf16) {
    return f32_to_bf16(low) | static_cast<unsigned>(f32_to_bf16(high)) << 16;
  } else {
    return ptx::f16_of_f32(low) | static_cast<unsigned>(ptx::f16_of_f32(high)) << 16;
  }
}

}  // namespace fovea::family
