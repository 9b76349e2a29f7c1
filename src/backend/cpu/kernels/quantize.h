// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/cpu/kernels/isa.h"
#include "shared/params/quantize.h"

namespace fovea::cpu {

// Blocks [first, last) of out, counted along its rows and then over rows. Whether all their weights were finite; a
// block with one that is not decodes to NaN.
bool quantize_blocks(const Isa& isa, const QuantizeArgs& args, i64_t first, i64_t last);

// e4m3, of one piece: the largest finite magnitude (and whether all weights are finite); the squared error under the
// scales of each candidate; the codes under a scale.
bool fp8_largest(const Isa& isa, const QuantizeArgs& args, i64_t piece, float* largest);
void fp8_errors(const Isa& isa, const QuantizeArgs& args, i64_t piece, float largest, float (&errors)[kFp8Candidates]);
void fp8_encode(const Isa& isa, const QuantizeArgs& args, i64_t piece, float scale);
// The scale of a candidate: at least the smallest f32 that has a reciprocal; 1 where all weights are 0.
inline float fp8_scale(float largest, int candidate) {
  if (largest == 0) return 1;
  const float scale = largest / kFp8Targets[candidate];
  return scale < 0x1p-126f ? 0x1p-126f : scale;
}

// The first element of row i of x that is not finite, or k.
i64_t first_not_finite(const Isa& isa, const QuantizeArgs& args, i64_t i);

}  // namespace fovea::cpu
