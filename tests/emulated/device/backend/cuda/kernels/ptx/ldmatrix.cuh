// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/cuda/kernels/ptx/address.cuh"

namespace fovea::ptx {

template <int count, bool transposed>
inline void load_matrix(unsigned (&r)[count], unsigned address) {
  struct Lane {
    unsigned (&r)[count];
    unsigned address;
  } mine = {r, address};
  simt::work_together(&mine, [](void* const(&lanes)[32]) {
    const auto lane = [&](int l) -> Lane& { return *static_cast<Lane*>(lanes[l]); };
    for (int m = 0; m < count; ++m) {
      u16_t matrix[8][8];
      for (int i = 0; i < 8; ++i) {
        const unsigned from = lane(8 * m + i).address;
        if (from % 16 != 0) throw std::logic_error("ldmatrix: an address that is not a multiple of 16");
        __builtin_memcpy(matrix[i], shared_pointer(from), 16);
      }
      for (int l = 0; l < 32; ++l) {
        const int g = l / 4, c = l % 4;
        const unsigned low = transposed ? matrix[2 * c][g] : matrix[g][2 * c];
        const unsigned high = transposed ? matrix[2 * c + 1][g] : matrix[g][2 * c + 1];
        lane(l).r[m] = low | high << 16;
      }
    }
  });
}
inline void load_matrix_x2(unsigned (&r)[2], unsigned address) {
  load_matrix<2, false>(r, address);
}
inline void load_matrix_x4(unsigned (&r)[4], unsigned address) {
  load_matrix<4, false>(r, address);
}
inline void load_matrix_x2_transposed(unsigned (&r)[2], unsigned address) {
  load_matrix<2, true>(r, address);
}
inline void load_matrix_x4_transposed(unsigned (&r)[4], unsigned address) {
  load_matrix<4, true>(r, address);
}

}  // namespace fovea::ptx
