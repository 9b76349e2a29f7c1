// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/cpu/kernels/isa.h"
#include "shared/params/matmul.h"

namespace fovea::cpu {

// Rows [first, last) of x to f32 at `packed` [m, matmul_packed_k(k)], zeros after k to the end of the vector.
void matmul_pack(const Isa& isa, const MatmulArgs& args, float* packed, i64_t first, i64_t last);

// out[m_first.. m_last, n_first.. n_last) from packed rows of x. At most kMatmulRows rows.
void matmul_block(const Isa& isa, const MatmulArgs& args, const float* packed, i64_t m_first, i64_t m_last,
                  i64_t n_first, i64_t n_last);

}  // namespace fovea::cpu
