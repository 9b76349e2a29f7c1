// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/cpu/kernels/isa.h"
#include "shared/params/quantize.h"

namespace fovea::cpu {

// Blocks [first, last) of out, counted along its rows and then over rows. Whether all their weights were finite; a
// block with one that is not decodes to NaN.
bool quantize_blocks(const Isa& isa, const QuantizeArgs& args, i64_t first, i64_t last);

// The first element of row i of x that is not finite, or k.
i64_t first_not_finite(const Isa& isa, const QuantizeArgs& args, i64_t i);

}  // namespace fovea::cpu
