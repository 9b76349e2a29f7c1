// SPDX-License-Identifier: Apache-2.0
// norm: what a plan is made from, and the block a kernel receives. Freestanding.
#pragma once

#include "shared/view.h"

namespace fovea {

enum class NormKind : int { rms = 0, layer = 1, l2 = 2 };
enum class GateKind : int { none = 0, silu = 1, sigmoid = 2 };

struct NormSpec {
  NormKind kind = NormKind::rms;
  GateKind gate_kind = GateKind::none;
  int gate_first = 0;
  int has_weight = 0;
  int has_bias = 0;
  int has_residual = 0;
  int has_residual_out = 0;
  Dtype x = Dtype::none;
  Dtype out = Dtype::none;
  i64_t rows = 0;  // the most a run may have
  i64_t n = 0;
  bool operator==(const NormSpec&) const = default;
};

struct NormArgs {
  NormSpec spec;
  View x;             // [rows of up to three dims, n], padded to rank 4 with leading ones
  View out;           // as x
  View residual;      // as x
  View residual_out;  // as x
  View gate;          // as x
  View weight;        // [n]
  View bias;          // [n]
  float eps = 0;
  float weight_offset = 0;
};

}  // namespace fovea
