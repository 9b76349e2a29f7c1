// SPDX-License-Identifier: Apache-2.0
// Products of a warp by their documented fragments: sums in f32, in ascending order of k.
#pragma once

#include "backend/cuda/kernels/ptx/arithmetic.cuh"

namespace fovea::ptx {

struct HalfType {
  static constexpr int per_register = 2;
  static float at(unsigned x, int i) { return half_of(x, i); }
};
struct Bf16Type {
  static constexpr int per_register = 2;
  static float at(unsigned x, int i) { return bf16_of(x, i); }
};
struct E4m3Type {
  static constexpr int per_register = 4;
  static float at(unsigned x, int i) { return e4m3_to_f32(static_cast<u8_t>(x >> 8 * i)); }
};

// d (16x8) += a (16 x k) b (k x 8); halves of k: the registers a0, a1 with b0, then a2, a3 with b1.
template <class Type, int halves>
inline void product_16x8(float (&d)[4], const unsigned* a, const unsigned* b) {
  struct Lane {
    float* d;
    const unsigned *a, *b;
  } mine = {d, a, b};
  simt::work_together(&mine, [](void* const(&lanes)[32]) {
    constexpr int n = Type::per_register, k = 4 * n * halves;
    const auto lane = [&](int l) -> Lane& { return *static_cast<Lane*>(lanes[l]); };
    float x[16][k], y[8][k];
    for (int l = 0; l < 32; ++l) {
      const int g = l / 4, c = l % 4;
      for (int half = 0; half < halves; ++half) {
        for (int i = 0; i < n; ++i) {
          const int at = half * 4 * n + c * n + i;
          x[g][at] = Type::at(lane(l).a[2 * half], i);
          x[g + 8][at] = Type::at(lane(l).a[2 * half + 1], i);
          y[g][at] = Type::at(lane(l).b[half], i);
        }
      }
    }
    for (int l = 0; l < 32; ++l) {
      for (int i = 0; i < 4; ++i) {
        const int row = l / 4 + i / 2 * 8, column = l % 4 * 2 + i % 2;
        float sum = lane(l).d[i];
        for (int j = 0; j < k; ++j) sum += x[row][j] * y[column][j];
        lane(l).d[i] = sum;
      }
    }
  });
}

}  // namespace fovea::ptx
