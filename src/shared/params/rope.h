// SPDX-License-Identifier: Apache-2.0
// rope: what a plan is made from, and the block a kernel receives. Freestanding.
#pragma once

#include "shared/rope.h"
#include "shared/view.h"

namespace fovea {

struct RopeSpec {
  RotarySpec rotary;
  Dtype x = Dtype::none;
  Dtype out = Dtype::none;
  i64_t tokens = 0;  // the most a run may have
  i64_t heads = 0;
  i64_t d = 0;
  bool operator==(const RopeSpec&) const = default;
};

struct RopeArgs {
  RopeSpec spec;
  View x;    // [tokens, heads, d]
  View out;  // [tokens, heads, d]
  RotaryInput rotary;
};

}  // namespace fovea
