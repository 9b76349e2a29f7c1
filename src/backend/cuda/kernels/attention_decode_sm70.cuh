// SPDX-License-Identifier: Apache-2.0
// attention, few rows, SM70 and later.
#pragma once

#include "backend/cuda/kernels/family_sm70.cuh"
#include "backend/cuda/kernels/attention_decode_plain.cuh"

namespace fovea {

extern "C" __global__ void __launch_bounds__(kThreads, config::blocks_per_sm)
    attention_decode_sm70(const __grid_constant__ AttentionCudaArgs g) {
  static_assert(sizeof(DecodeShared) <= attention_smem_bytes(kShape));
  extern __shared__ char shared_bytes[];
  DecodeShared& shared = *reinterpret_cast<DecodeShared*>(shared_bytes);
  if constexpr (config::fixed != 0) {
    decode_fixed(g, shared);
  } else if constexpr (kGeneral) {
    decode_even(g, shared);
  } else {
    decode_plain(g, shared);
  }
}

}  // namespace fovea
