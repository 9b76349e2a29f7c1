// SPDX-License-Identifier: Apache-2.0
// d = c + a b by one instruction a warp, fragments filled from plain arrays as the pictures in kernels/ptx say.
// Grid: rounds blocks of one warp.
#pragma once

#include "cuda/kernels/args.h"

namespace fovea::cuda_test {

// Four bytes at any address.
inline unsigned word_at(const u8_t* p) {
  return p[0] | p[1] << 8 | p[2] << 16 | static_cast<unsigned>(p[3]) << 24;
}

// m16n8: a row of A or column of B has k_bytes bytes, 16 of them a register pair of A and one register of B.
template <int k_bytes, class D, class Product>
void run_m16n8(const ProductArgs& args, Product product) {
  constexpr int halves = k_bytes / 16;
  const int lane = static_cast<int>(threadIdx.x), g = lane / 4, c = lane % 4;
  const i64_t round = blockIdx.x;
  const u8_t* a_rows = args.a + round * 16 * k_bytes;
  const u8_t* b_columns = args.b + round * 8 * k_bytes;
  unsigned a[2 * halves], b[halves];
  for (int h = 0; h < halves; ++h) {
    a[2 * h] = word_at(a_rows + g * k_bytes + 16 * h + 4 * c);
    a[2 * h + 1] = word_at(a_rows + (g + 8) * k_bytes + 16 * h + 4 * c);
    b[h] = word_at(b_columns + g * k_bytes + 16 * h + 4 * c);
  }
  D d[4];
  for (int i = 0; i < 4; ++i) {
    d[i] = __builtin_bit_cast(D, args.c[round * 128 + (g + i / 2 * 8) * 8 + 2 * c + i % 2]);
  }
  product(d, a, b);
  for (int i = 0; i < 4; ++i) {
    args.d[round * 128 + (g + i / 2 * 8) * 8 + 2 * c + i % 2] = __builtin_bit_cast(u32_t, d[i]);
  }
}

}  // namespace fovea::cuda_test
