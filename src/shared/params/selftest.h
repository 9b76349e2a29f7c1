// SPDX-License-Identifier: Apache-2.0
// selftest: the block of a small kernel that shows that a device, its driver and a bundle work together. Freestanding.
#pragma once

#include "shared/convert.h"

namespace fovea {

struct SelftestArgs {
  const u16_t* x = nullptr;  // [n] bf16
  float* out = nullptr;      // [n]
  i64_t n = 0;
  float scale = 0;
};
static_assert(sizeof(SelftestArgs) == 32);

// Dynamic shared memory of a block of `block` threads, in bytes.
constexpr int selftest_smem_bytes(int block) {
  return block * static_cast<int>(sizeof(float));
}

}  // namespace fovea
