// SPDX-License-Identifier: Apache-2.0
// Norms of one row in fp64, from their formulas.
#pragma once

#include <vector>

namespace fovea::oracle {

enum class Norm { rms, layer, l2 };
enum class Gate { none, silu, sigmoid };

// Absent operands are empty.
struct NormRow {
  Norm kind = Norm::rms;
  Gate gate_kind = Gate::none;
  bool gate_first = false;
  double eps = 0;
  double weight_offset = 0;
  std::vector<double> x, residual, gate, weight, bias;
};

struct NormResult {
  std::vector<double> out;
  std::vector<double> sum;        // x + residual
  std::vector<double> magnitude;  // of the terms each out is made of: what rounding errors scale with
};

double activate(Gate gate, double g);
NormResult norm64(const NormRow& row);

}  // namespace fovea::oracle
