// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/cpu/kernels/isa.h"
#include "shared/params/sample.h"

namespace fovea::cpu {

// Three arrays of sample_padded_vocab(vocab) words.
struct SampleWorkspace {
  float* logits;
  float* weights;
  i32_t* ids;
};

// The token of a row, or -1 where no logit is a number above -inf.
i64_t sample_greedy(const Isa& isa, const SampleArgs& args, i64_t row);
i64_t sample_draw(const Isa& isa, const SampleArgs& args, i64_t row, const SampleRule& rule, const SampleWorkspace& to);

}  // namespace fovea::cpu
