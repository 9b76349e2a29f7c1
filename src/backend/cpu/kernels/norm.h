// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/cpu/kernels/isa.h"
#include "shared/params/norm.h"

namespace fovea::cpu {

// Rows [first, last) of the args, counted over the three leading dimensions of x.
void norm_rows(const Isa& isa, const NormArgs& args, i64_t first, i64_t last);

}  // namespace fovea::cpu
