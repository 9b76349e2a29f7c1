// SPDX-License-Identifier: Apache-2.0
#include "oracle/matmul64.h"

#include <cmath>

namespace fovea::oracle {

Product matmul64(const std::vector<double>& x, const std::vector<double>& w, const std::vector<double>& bias, int64_t m,
                 int64_t n, int64_t k) {
  Product p;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = bias.empty() ? 0 : bias[static_cast<size_t>(j)], magnitude = std::fabs(sum);
      for (int64_t l = 0; l < k; ++l) {
        const double term = x[static_cast<size_t>(i * k + l)] * w[static_cast<size_t>(j * k + l)];
        sum += term;
        magnitude += std::fabs(term);
      }
      p.out.push_back(sum);
      p.magnitude.push_back(magnitude);
    }
  }
  return p;
}

}  // namespace fovea::oracle
