// SPDX-License-Identifier: Apache-2.0
// What a plan may know of a device: everything that kernel choice depends on.
#pragma once

#include <cstdint>

namespace fovea {

struct Caps {
  int32_t device_type = 0;
  int32_t device_id = 0;
  int32_t vector_bytes = 16;   // CPU: SIMD register
  int64_t l2_bytes = 1 << 20;  // of one core or of the card
};

struct Workspace {
  uint64_t scratch = 0;  // bytes
  uint64_t sync = 0;     // bytes
};

}  // namespace fovea
