// SPDX-License-Identifier: Apache-2.0
// glu: what a plan is made from, and the block a kernel receives. Freestanding.
#pragma once

#include "shared/view.h"

namespace fovea {

enum class GluKind : int { silu = 0, gelu_tanh = 1, gelu_erf = 2, clamped_swiglu = 3 };

struct GluSpec {
  GluKind kind = GluKind::silu;
  Dtype gate = Dtype::none;
  Dtype up = Dtype::none;
  Dtype out = Dtype::none;
  i64_t tokens = 0;  // the most a run may have
  i64_t n = 0;
  bool operator==(const GluSpec&) const = default;
};

struct GluArgs {
  GluSpec spec;
  View gate;  // [tokens, n], any strides
  View up;    // [tokens, n], any strides
  View out;   // [tokens, n]
  float alpha = 0;
  float limit = 0;
};

}  // namespace fovea
