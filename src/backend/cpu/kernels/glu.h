// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/cpu/kernels/isa.h"
#include "shared/params/glu.h"

namespace fovea::cpu {

// Columns [first, first + count) of one token.
void glu_row(const Isa& isa, const GluArgs& args, i64_t token, i64_t first, i64_t count);

}  // namespace fovea::cpu
