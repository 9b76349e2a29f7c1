// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "emulated/products.h"

namespace fovea::ptx {

// Four products of quad-pairs, d (8x8) += a (8x4) b (4x8).
template <bool b_by_rows>
inline void product_8x8(float (&d)[8], const unsigned (&a)[2], unsigned b0, unsigned b1) {
  struct Lane {
    float* d;
    const unsigned* a;
    unsigned b[2];
  } mine = {d, a, {b0, b1}};
  simt::work_together(&mine, [](void* const(&lanes)[32]) {
    const auto lane = [&](int l) -> Lane& { return *static_cast<Lane*>(lanes[l]); };
    float x[4][8][4], y[4][8][4];
    for (int l = 0; l < 32; ++l) {
      const int q = l / 4 % 4, r = l % 4 + l / 16 * 4;
      for (int k = 0; k < 4; ++k) {
        x[q][r][k] = half_of(lane(l).a[k / 2], k % 2);
        const float value = half_of(lane(l).b[k / 2], k % 2);
        if (b_by_rows) {
          y[q][l / 16 * 4 + k][l % 4] = value;
        } else {
          y[q][r][k] = value;
        }
      }
    }
    for (int l = 0; l < 32; ++l) {
      for (int i = 0; i < 8; ++i) {
        const int q = l / 4 % 4, row = l / 16 * 4 + (l & 1) + (i & 2), column = (i & 4) + (l & 2) + (i & 1);
        float sum = lane(l).d[i];
        for (int k = 0; k < 4; ++k) sum += x[q][row][k] * y[q][column][k];
        lane(l).d[i] = sum;
      }
    }
  });
}
inline void mma_m8n8k4_f16(float (&d)[8], const unsigned (&a)[2], unsigned b0, unsigned b1) {
  product_8x8<false>(d, a, b0, b1);
}
inline void mma_m8n8k4_f16_row(float (&d)[8], const unsigned (&a)[2], unsigned b0, unsigned b1) {
  product_8x8<true>(d, a, b0, b1);
}

}  // namespace fovea::ptx
