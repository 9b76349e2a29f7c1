// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/cpu/kernels/isa.h"
#include "shared/params/kv_append.h"

namespace fovea::cpu {

// Tokens [first, last) of the args, whose positions are in range. Returns how many vectors (groups, where a group has a
// scale of its own) held NaN or Inf where a scale is computed: those are stored as zeros.
i64_t append_tokens(const Isa& isa, const KvAppendArgs& args, const RotaryTable& table, i64_t first, i64_t last);

}  // namespace fovea::cpu
