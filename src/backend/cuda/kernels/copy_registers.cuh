// SPDX-License-Identifier: Apache-2.0
// 16 bytes from global to shared memory through registers, for cards without asynchronous copies.
#pragma once

#include "backend/cuda/kernels/ptx/address.cuh"
#include "shared/convert.h"

namespace fovea {

inline uint4* shared_16(unsigned to) {
  return static_cast<uint4*>(__cvta_shared_to_generic(to));
}

// The first `bytes` (any number: below 0 none, above 16 all) of 16, the rest zeros. The address is a multiple of
// `align`; no byte past `bytes` is read.
inline uint4 load_16(const char* from, int bytes, int align) {
  if (align >= 16 && bytes >= 16) return *reinterpret_cast<const uint4*>(from);
  unsigned words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    words[i] = 0;
    const char* word = from + 4 * i;
    if (align >= 4 && bytes >= 4 * i + 4) {
      words[i] = *reinterpret_cast<const unsigned*>(word);
      continue;
    }
#pragma unroll 1
    for (int j = 0; j < 4 && 4 * i + j < bytes; ++j) {
      words[i] |= static_cast<unsigned>(static_cast<u8_t>(word[j])) << 8 * j;
    }
  }
  return {words[0], words[1], words[2], words[3]};
}

}  // namespace fovea
