// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/cpu/kernels/isa.h"
#include "shared/params/rope.h"

namespace fovea::cpu {

// Tokens [first, last) of the args.
void rope_tokens(const Isa& isa, const RopeArgs& args, const RotaryTable& table, i64_t first, i64_t last);

}  // namespace fovea::cpu
