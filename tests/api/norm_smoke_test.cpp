// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "fovea/fovea.hpp"

namespace {

TEST(Norm, RmsOfOneRow) {
  const std::vector<float> x = {3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  std::vector<float> out(x.size(), NAN);
  const fovea::Context context({.threads = 2});
  const int64_t n = static_cast<int64_t>(x.size());
  const fovea::NormParams params{
      .x = fovea::tensor(x.data(), {1, n}), .out = fovea::tensor(out.data(), {1, n}), .eps = 0};
  fovea::norm(context, params);
  const float rms = std::sqrt(25.0f / 11.0f);
  for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(out[i], x[i] / rms, 1e-6f);
  EXPECT_EQ(context.plan(params).explain().substr(0, 5), "norm:");
}

TEST(Norm, RefusesAnOutputOfAnotherShape) {
  const std::vector<float> x(8);
  std::vector<float> out(8);
  const fovea::Context context;
  const fovea::Result result =
      fovea::try_norm(context, {.x = fovea::tensor(x.data(), {1, 8}), .out = fovea::tensor(out.data(), {2, 4})});
  EXPECT_EQ(result.code, FOVEA_INVALID_VALUE);
  EXPECT_EQ(result.message, "out.shape is [2, 4]: must be [1, 8] (x)");
}

}  // namespace
