// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "emulated/products.h"

namespace fovea::ptx {

inline void mma_m16n8k8_f16(float (&d)[4], const unsigned (&a)[2], unsigned b0) {
  product_16x8<HalfType, 1>(d, a, &b0);
}

}  // namespace fovea::ptx
