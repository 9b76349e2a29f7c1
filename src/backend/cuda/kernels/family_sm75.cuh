// SPDX-License-Identifier: Apache-2.0
// What attention takes from SM75: mma.sync m16n8k8 in f16, and copies through registers.
#pragma once

#include "backend/cuda/kernels/family_before_sm80.cuh"
#include "backend/cuda/kernels/ptx/mma_sm75.cuh"

namespace fovea::family {

constexpr bool kQuadPairs = false;

// d += a b of 16x16 and 16x8: two products over halves of k.
template <Dtype kind>
inline void mma(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  static_assert(kind == Dtype::f16);
  const unsigned first[2] = {a[0], a[1]}, second[2] = {a[2], a[3]};
  ptx::mma_m16n8k8_f16(d, first, b0);
  ptx::mma_m16n8k8_f16(d, second, b1);
}

}  // namespace fovea::family

#include "backend/cuda/kernels/attention_products_m16n8.cuh"
