// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shared/params/sample.h"

namespace fovea::cpu {

// Penalties, bias and bit mask on a row of logits [vocab]. `path` holds n_path tokens that follow the history.
// `counts` [vocab] may hold anything and does so after.
void edit_logits(const SampleArgs& args, const SampleEdits& edits, const View& path, i64_t n_path, float* logits,
                 u32_t* counts);

}  // namespace fovea::cpu
