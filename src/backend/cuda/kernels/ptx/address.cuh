// SPDX-License-Identifier: Apache-2.0
// Addresses of state spaces.
#pragma once

namespace fovea::ptx {

// The 32-bit address inside the block's shared memory, as the instructions with .shared take it. PTX ISA 9.7.9 (cvta).
__device__ inline unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// Makes the compiler believe that the value is used. No instruction.
__device__ inline void keep(unsigned x) {
  asm volatile("" ::"r"(x));
}

}  // namespace fovea::ptx
