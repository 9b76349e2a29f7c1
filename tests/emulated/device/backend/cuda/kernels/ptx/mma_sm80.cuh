// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "emulated/products.h"

namespace fovea::ptx {

inline void mma_m16n8k16_f16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  const unsigned b[2] = {b0, b1};
  product_16x8<HalfType, 2>(d, a, b);
}
inline void mma_m16n8k16_bf16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  const unsigned b[2] = {b0, b1};
  product_16x8<Bf16Type, 2>(d, a, b);
}

}  // namespace fovea::ptx
