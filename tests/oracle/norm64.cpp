// SPDX-License-Identifier: Apache-2.0
#include "oracle/norm64.h"

#include <cmath>

namespace fovea::oracle {

double activate(Gate gate, double g) {
  if (gate == Gate::none) return 1;
  const double sigmoid = g >= 0 ? 1 / (1 + std::exp(-g)) : std::exp(g) / (1 + std::exp(g));
  return gate == Gate::silu ? g * sigmoid : sigmoid;
}

NormResult norm64(const NormRow& row) {
  const size_t n = row.x.size();
  NormResult result{.out = {}, .sum = row.x, .magnitude = {}};
  std::vector<double> act(n, 1);
  for (size_t i = 0; i < n; ++i) {
    if (!row.residual.empty()) result.sum[i] += row.residual[i];
    if (!row.gate.empty()) act[i] = activate(row.gate_kind, row.gate[i]);
  }
  std::vector<double> x = result.sum;
  if (row.gate_first) {
    for (size_t i = 0; i < n; ++i) x[i] *= act[i];
  }
  double mean = 0, largest = 0;
  for (const double v : x) {
    if (row.kind == Norm::layer) mean += v / static_cast<double>(n);
    largest = std::fmax(largest, std::fabs(v));
  }
  double squares = 0;
  for (const double v : x) squares += (v - mean) * (v - mean);
  const double power = row.kind == Norm::l2 ? squares : squares / static_cast<double>(n);
  const double root = std::sqrt(power + row.eps);
  for (size_t i = 0; i < n; ++i) {
    const double scale = (row.weight.empty() ? 1 : row.weight[i] + row.weight_offset) * (row.gate_first ? 1 : act[i]);
    const double shift = (row.bias.empty() ? 0 : row.bias[i]) * (row.gate_first ? 1 : act[i]);
    const double y = root == 0 ? 0 : (x[i] - mean) / root;
    result.out.push_back(y * scale + shift);
    const double term = row.kind == Norm::layer ? std::fabs(x[i]) + largest : std::fabs(x[i]);
    result.magnitude.push_back((root == 0 ? 0 : term / root * std::fabs(scale)) + std::fabs(shift));
  }
  return result;
}

}  // namespace fovea::oracle
