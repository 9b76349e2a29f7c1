// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/cpu/kernels/isa.h"
#include "shared/params/merge_states.h"

namespace fovea::cpu {

// Rows [first, last), counted over batch, tokens and heads of out.
void merge_rows(const Isa& isa, const MergeStatesArgs& args, i64_t first, i64_t last);

}  // namespace fovea::cpu
