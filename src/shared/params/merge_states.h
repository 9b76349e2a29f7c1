// SPDX-License-Identifier: Apache-2.0
// merge_states: what a plan is made from, and the block a kernel receives. Freestanding.
#pragma once

#include "shared/view.h"

namespace fovea {

inline constexpr int kMaxParts = 64;

struct MergeStatesSpec {
  int parts = 0;
  int has_lse = 0;
  int has_sinks = 0;
  int padded = 0;  // [batch, tokens, heads, d]
  Dtype out = Dtype::none;
  Dtype outs[kMaxParts] = {};
  i64_t batch = 0;   // 1 where not padded; the most a run may have
  i64_t tokens = 0;  // the most a run may have
  i64_t heads = 0;
  i64_t d = 0;
  bool operator==(const MergeStatesSpec&) const = default;
};

struct MergeStatesArgs {
  MergeStatesSpec spec;
  View outs[kMaxParts];  // [batch or 1, tokens, heads, d]
  View lses[kMaxParts];  // [batch or 1, tokens, heads]
  View out;              // as outs
  View lse;              // as lses
  View sinks;            // [heads]
};

}  // namespace fovea
