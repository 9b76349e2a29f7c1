// SPDX-License-Identifier: Apache-2.0
// What kv_append must store and return, in fp64, with the error that fp32 arithmetic and one rounding may add.
#pragma once

#include <vector>

#include "fovea/fovea.h"

namespace fovea::oracle {

struct Append64 {
  std::vector<double> k;        // [tokens, kv heads, d_k] after norm and RoPE, before any rounding
  std::vector<double> k_bound;  // fp32 arithmetic, and the rounding to k's 16-bit type where norm or RoPE changed k
  std::vector<double> q;        // [tokens, heads, d_q] after norm and RoPE
  std::vector<double> q_bound;  // fp32 arithmetic
};

Append64 append64(const fovea_kv_append_params& p);

}  // namespace fovea::oracle
