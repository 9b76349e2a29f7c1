// SPDX-License-Identifier: Apache-2.0
// Four e4m3 values to two registers of two 16-bit floats each: exact, NaN stays NaN.
#pragma once

#include "backend/cuda/kernels/ptx/convert.cuh"
#include "backend/cuda/kernels/ptx/convert_fp8.cuh"
#include "shared/dtype.h"

namespace fovea {

#if __CUDA_ARCH__ >= 890
// By way of f16 and f32, both of which hold every e4m3.
inline unsigned bf16x2_of_e4m3x2(unsigned short two) {
  const unsigned x = ptx::f16x2_of_e4m3x2(two);
  return ptx::pack_bf16(ptx::f32_of_f16(static_cast<unsigned short>(x)),
                        ptx::f32_of_f16(static_cast<unsigned short>(x >> 16)));
}
#else
using ptx::bf16x2_of_e4m3x2;
#endif

template <Dtype kind>
inline void widen_e4m3(unsigned four, unsigned& low, unsigned& high) {
  const auto first = static_cast<unsigned short>(four), second = static_cast<unsigned short>(four >> 16);
  if constexpr (kind == Dtype::bf16) {
    low = bf16x2_of_e4m3x2(first);
    high = bf16x2_of_e4m3x2(second);
  } else {
#if __CUDA_ARCH__ >= 890
    low = ptx::f16x2_of_e4m3x2(first);
    high = ptx::f16x2_of_e4m3x2(second);
#else
    low = ptx::f16x2_of_e4m3x2_by_integers(first);
    high = ptx::f16x2_of_e4m3x2_by_integers(second);
#endif
  }
}

}  // namespace fovea
