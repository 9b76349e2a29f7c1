// SPDX-License-Identifier: Apache-2.0
// Matrix products in fp64.
#pragma once

#include <cstdint>
#include <vector>

namespace fovea::oracle {

struct Product {
  std::vector<double> out;        // [m, n]
  std::vector<double> magnitude;  // sum of |x w| + |bias|: what rounding errors scale with
};

// x [m, k], w [n, k], bias [n] or empty.
Product matmul64(const std::vector<double>& x, const std::vector<double>& w, const std::vector<double>& bias, int64_t m,
                 int64_t n, int64_t k);

}  // namespace fovea::oracle
