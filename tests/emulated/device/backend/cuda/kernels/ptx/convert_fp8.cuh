// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/cuda/kernels/ptx/arithmetic.cuh"

namespace fovea::ptx {

inline unsigned f16x2_of_e4m3x2_by_integers(unsigned short x) {
  return two_halves(e4m3_to_f32(static_cast<u8_t>(x)), e4m3_to_f32(static_cast<u8_t>(x >> 8)));
}
inline unsigned f16x2_of_e4m3x2(unsigned short x) {
  return f16x2_of_e4m3x2_by_integers(x);
}
inline unsigned bf16x2_of_e4m3x2(unsigned short x) {
  return f32_to_bf16(e4m3_to_f32(static_cast<u8_t>(x))) |
         static_cast<unsigned>(f32_to_bf16(e4m3_to_f32(static_cast<u8_t>(x >> 8)))) << 16;
}

}  // namespace fovea::ptx
