// SPDX-License-Identifier: Apache-2.0
// What a device tells a checked call (FOVEA_EXEC_CHECK) of bad values in its memory. Freestanding.
#pragma once

#include "shared/convert.h"

namespace fovea {

enum class StatusCode : u32_t {
#define FOVEA_STATUS(name, NAME, value, text) name = value,
#include "fovea/status.def"
#undef FOVEA_STATUS
};

constexpr u64_t nothing_reported() {
  return ~u64_t{0};
}

// The operation says what its kinds of index and its count mean.
struct CheckReport {
  u64_t first[4] = {nothing_reported(), nothing_reported(), nothing_reported(),
                    nothing_reported()};  // the lowest index
  u64_t count = 0;
};
static_assert(sizeof(CheckReport) == 40);

}  // namespace fovea
