// SPDX-License-Identifier: Apache-2.0
#include "oracle/glu64.h"

#include <algorithm>
#include <cmath>

namespace fovea::oracle {

namespace {

// x times the sigmoid of z, with its limit 0 for z -> -inf.
double times_sigmoid(double x, double z) {
  if (z < -1000) return 0;
  return z >= 0 ? x / (1 + std::exp(-z)) : x * std::exp(z) / (1 + std::exp(z));
}

}  // namespace

double activation64(Glu kind, double g, double alpha) {
  const double pi = std::acos(-1.0);
  switch (kind) {
    case Glu::silu:
      return times_sigmoid(g, g);
    case Glu::gelu_tanh:  // (1 + tanh u) / 2 is the sigmoid of 2 u
      return times_sigmoid(g, 2 * std::sqrt(2 / pi) * (g + 0.044715 * g * g * g));
    case Glu::gelu_erf:  // 1 + erf(u) = erfc(-u)
      return g < -100 ? 0 : g * std::erfc(-g / std::sqrt(2.0)) / 2;
    case Glu::clamped_swiglu:
      return times_sigmoid(g, alpha * g);
  }
  return 0;
}

double glu64(Glu kind, double gate, double up, double alpha, double limit) {
  if (kind != Glu::clamped_swiglu) return activation64(kind, gate) * up;
  const double g = std::isnan(gate) ? gate : std::min(gate, limit);
  const double u = std::isnan(up) ? up : std::clamp(up, -limit, limit);
  return activation64(kind, g, alpha) * (u + 1);
}

}  // namespace fovea::oracle
