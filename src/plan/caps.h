// SPDX-License-Identifier: Apache-2.0
// What a plan may know of a device: everything that kernel choice depends on.
#pragma once

#include <cstdint>

#include "plan/cuda_arch.h"

namespace fovea {

struct Caps {
  int32_t device_type = 0;
  int32_t device_id = 0;
  int32_t vector_bytes = 16;       // CPU: SIMD register
  int32_t amx = 0;                 // CPU: 1 = tiles of bf16 may be used
  int64_t l2_bytes = 1 << 20;      // of one core or of the card
  int32_t compute_capability = 0;  // CUDA: 10 * major + minor of the card
  int32_t sm_count = 0;            // CUDA
  int32_t smem_bytes = 0;          // CUDA: the most shared memory that one block may use
  CudaArch arch = {};              // CUDA: what kernels are compiled for
};

struct Workspace {
  uint64_t scratch = 0;  // bytes
  uint64_t sync = 0;     // bytes
};

}  // namespace fovea
