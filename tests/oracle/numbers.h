// SPDX-License-Identifier: Apache-2.0
// The number formats, written down once more for the tests: nothing here comes from the library's sources.
#pragma once

#include <cstdint>

#include "fovea/fovea.h"

namespace fovea::oracle {

// One element of an element type (not a block type) in memory.
double decode(int32_t dtype, const void* at);
// Rounds to nearest, ties to even. e4m3 saturates at 448, infinities too, and keeps NaN; f16, bf16, f32 overflow to
// Inf.
void encode(int32_t dtype, void* at, double x);
// encode, then decode.
double round_to(int32_t dtype, double x);

int64_t bytes_of(int32_t dtype);           // of one element
double ulp(int32_t dtype, double x);       // distance of neighbours at |x|
double largest(int32_t dtype);             // finite
double smallest_normal(int32_t dtype);     // positive
double smallest_subnormal(int32_t dtype);  // positive

}  // namespace fovea::oracle
