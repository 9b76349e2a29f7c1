// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "emulated/products.h"

namespace fovea::ptx {

inline void mma_m16n8k32_e4m3(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  const unsigned b[2] = {b0, b1};
  product_16x8<E4m3Type, 2>(d, a, b);
}

}  // namespace fovea::ptx
