// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/cpu/kernels/sample.h"

namespace fovea::cpu {

// A row of draft probabilities as f32 to to.logits [vocab]; answers its sum, or -1 where an entry is negative or NaN or
// the sum is 0 or infinite.
double verify_load(const Isa& isa, const View& probs, i64_t row, const SampleWorkspace& to);

// What is left of the target where a draft of the distribution in to.logits, of sum `draft_total`, was rejected:
// weights become max(weight - kept.total * draft / draft_total, 0), and kept.total their sum.
void verify_subtract(const Isa& isa, SampleKept& kept, const SampleWorkspace& to, double draft_total);
// The same for a draft that was not drawn: its distribution is all at `entry` of the weights.
void verify_remove(const Isa& isa, SampleKept& kept, const SampleWorkspace& to, i64_t entry);

}  // namespace fovea::cpu
