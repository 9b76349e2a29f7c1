// SPDX-License-Identifier: Apache-2.0
// What attention takes from SM80: asynchronous copies and mma.sync m16n8k16 in f16 and bf16.
#pragma once

#include "backend/cuda/kernels/ptx/convert.cuh"
#include "backend/cuda/kernels/ptx/copy.cuh"
#include "backend/cuda/kernels/ptx/matrix.cuh"
#include "shared/dtype.h"

namespace fovea::family {

constexpr bool kQuadPairs = false;
constexpr bool kAsync = true;

// `bytes` from 0 to 16; the rest of the 16 become zeros. Both addresses are multiples of 16.
inline void copy_16(unsigned to, const void* from, int bytes) {
  ptx::copy_async_16(to, from, bytes);
}
inline void copy_4(unsigned to, const void* from, int bytes) {
  ptx::copy_async_4(to, from, bytes);
}
inline void commit() {
  ptx::copy_async_commit();
}
template <int pending>
inline void wait() {
  ptx::copy_async_wait<pending>();
}

// d += a b of 16x16 and 16x8.
template <Dtype kind>
inline void mma(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  if constexpr (kind == Dtype::bf16) {
    ptx::mma_m16n8k16_bf16(d, a, b0, b1);
  } else {
    ptx::mma_m16n8k16_f16(d, a, b0, b1);
  }
}
template <Dtype kind>
inline unsigned pack(float low, float high) {
  if constexpr (kind == Dtype::bf16) {
    return ptx::pack_bf16(low, high);
  } else {
    return ptx::pack_f16(low, high);
  }
}

}  // namespace fovea::family

#include "backend/cuda/kernels/attention_products_m16n8.cuh"
