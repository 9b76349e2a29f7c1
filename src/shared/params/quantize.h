// SPDX-License-Identifier: Apache-2.0
// quantize: what a plan is made from, and the block a kernel receives. Freestanding.
#pragma once

#include "shared/view.h"

namespace fovea {

struct QuantizeSpec {
  Dtype x = Dtype::none;
  Dtype out = Dtype::none;
  i64_t n = 0;  // the most a run may have
  i64_t k = 0;
  bool operator==(const QuantizeSpec&) const = default;
};

struct QuantizeArgs {
  QuantizeSpec spec;
  View x;    // [n, k]
  View out;  // [n, k]
};

// Blocks of a task, counted along rows and then over rows.
constexpr i64_t quantize_blocks_per_task(Dtype out) {
  return 16384 / dtype_block(out);
}

}  // namespace fovea
