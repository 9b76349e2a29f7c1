// SPDX-License-Identifier: Apache-2.0
// embed: what a plan is made from, and the block a kernel receives. Freestanding.
#pragma once

#include "shared/view.h"
#include "shared/weights/scale.h"

namespace fovea {

struct EmbedSpec {
  Dtype ids = Dtype::none;
  Dtype table = Dtype::none;
  Dtype table_scale = Dtype::none;
  WeightScale scale_kind = WeightScale::none;
  Dtype out = Dtype::none;
  i64_t tokens = 0;  // the most a run may have
  i64_t vocab = 0;
  i64_t n = 0;
  bool operator==(const EmbedSpec&) const = default;
};

struct EmbedArgs {
  EmbedSpec spec;
  View ids;          // [tokens]
  View table;        // [vocab, n]
  View table_scale;  // of e4m3 weights, by scale_kind
  View out;          // [tokens, n]
  float scale = 1;
};

}  // namespace fovea
