// SPDX-License-Identifier: Apache-2.0
// The instruction sets of this binary that this processor has.
#pragma once

#include <hwy/highway.h>

#include <cstdint>
#include <vector>

#include "backend/cpu/kernels/isa.h"

namespace fovea::cpu {

inline std::vector<Isa> every_isa() {
  std::vector<Isa> all;
  const int64_t usable = hwy::SupportedTargets() & HWY_TARGETS;
  for (int64_t rest = usable ? usable : HWY_STATIC_TARGET; rest != 0; rest &= rest - 1) {
    all.emplace_back();
    all.back().use(rest & -rest);
  }
  return all;
}

}  // namespace fovea::cpu
