// SPDX-License-Identifier: Apache-2.0
// Why no codec keeps a bit for the sign of a projected residual: at equal bits products with it vary four to six times
// as much as with all bits in the grid. It is unbiased, and so are the grids, by their scale alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "oracle/grid64.h"
#include "oracle/qjl64.h"
#include "support/random.h"

namespace fovea::test {
namespace {

std::vector<double> unit_vector(Rng& rng, int d) {
  std::vector<double> x(static_cast<size_t>(d));
  for (double& v : x) v = rng.normal();
  const double norm = std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0));
  for (double& v : x) v /= norm;
  return x;
}

TEST(Qjl, ItsProductsVaryMoreThanThoseOfGridsOfAsManyBits) {
  constexpr int kDims = 128;
  Rng rng = test_rng();
  const std::vector<double> rotation = oracle::rotation(kDims);
  const int pairs = std::max(100, static_cast<int>(1500 * effort()));
  for (const int bits : {2, 3, 4}) {
    std::vector<double> projection(kDims * kDims);
    double qjl = 0, grid = 0, qjl_mean = 0;
    for (int i = 0; i < pairs; ++i) {
      if (i % 50 == 0) {
        for (double& v : projection) v = rng.normal();
      }
      const std::vector<double> x = unit_vector(rng, kDims), y = unit_vector(rng, kDims);
      const double want = std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
      const double estimate = oracle::qjl_product(oracle::qjl_encode(bits, rotation, projection, x), projection, y);
      const std::string name = "q" + std::to_string(bits);
      const std::vector<double> decoded = oracle::decode(name, rotation, oracle::encode(name, rotation, x));
      qjl += std::pow(estimate - want, 2) / pairs;
      qjl_mean += (estimate - want) / pairs;
      grid += std::pow(std::inner_product(decoded.begin(), decoded.end(), y.begin(), 0.0) - want, 2) / pairs;
    }
    RecordProperty("bits" + std::to_string(bits),
                   std::to_string(kDims * qjl) + " against " + std::to_string(kDims * grid));
    EXPECT_GT(qjl, 3.5 * grid) << bits;
    EXPECT_LT(qjl, 8 * grid) << bits;
    EXPECT_LT(std::abs(qjl_mean), 4 * std::sqrt(qjl / pairs)) << bits;
  }
}

}  // namespace
}  // namespace fovea::test
