// SPDX-License-Identifier: Apache-2.0
// verify: what a plan is made from, and the block a kernel receives. Freestanding.
#pragma once

#include "shared/params/sample.h"

namespace fovea {

struct VerifySpec {
  SampleSpec target;  // its rows are nodes
  int tree = 0;       // parents are given
  int drawn = 0;      // draft_probs are given
  i64_t requests = 0;
  bool operator==(const VerifySpec&) const = default;
};

struct VerifyArgs {
  VerifySpec spec;
  SampleArgs target;  // one value per request; logits and mask_rows per node; nothing to write to
  View cu_nodes;      // [requests + 1]
  View draft_tokens;  // [nodes]
  View parents;       // [nodes] or absent
  View draft_probs;   // [rows, vocab] or absent
  View draft_rows;    // [nodes] or absent
  View accepted;      // [requests]
  View tokens;        // [requests, width]
  View nodes;         // [requests, width] or absent
};

}  // namespace fovea
