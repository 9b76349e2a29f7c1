// SPDX-License-Identifier: Apache-2.0
// quantize to e4m3 with scales of the tensor, of rows and of blocks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "fovea/fovea.hpp"
#include "oracle/numbers.h"
#include "support/backends.h"
#include "support/check.h"
#include "support/tensors.h"

namespace {

using namespace fovea::test;
using fovea::QuantizeParams;
using fovea::Result;

enum class Kind { tensor, channel, block };
constexpr Kind kKinds[] = {Kind::tensor, Kind::channel, Kind::block};

std::vector<int64_t> scale_shape(Kind kind, int64_t n, int64_t k) {
  if (kind == Kind::tensor) return {1};
  if (kind == Kind::channel) return {n};
  return {(n + 127) / 128, (k + 127) / 128};
}

int64_t scale_of(Kind kind, int64_t k, int64_t row, int64_t column) {
  if (kind == Kind::tensor) return 0;
  return kind == Kind::channel ? row : row / 128 * ((k + 127) / 128) + column / 128;
}

std::vector<double> decoded(Kind kind, const TensorBox& out, const TensorBox& scale, int64_t k) {
  std::vector<double> all;
  for (int64_t i = 0; i < out.size(); ++i) all.push_back(out.get(i) * scale.get(scale_of(kind, k, i / k, i % k)));
  return all;
}

double error_of(const std::vector<double>& a, const std::vector<double>& b) {
  double error = 0, all = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    error += (a[i] - b[i]) * (a[i] - b[i]);
    all += a[i] * a[i];
  }
  return std::sqrt(error / all);
}

// Every weight takes the code that is nearest under the scale; the scale puts the largest weight on a code of the
// highest binade, and none of the other seven would leave a smaller error.
TEST(QuantizeFp8, ScalesAreTheBestOfTheirCandidates) {
  for (const Backend& b : backends()) {
    SCOPED_TRACE(b.name);
    Rng rng = test_rng();
    for (const Kind kind : kKinds) {
      for (const int32_t type : {FOVEA_F32, FOVEA_F16, FOVEA_BF16}) {
        SCOPED_TRACE(::testing::Message() << "kind " << static_cast<int>(kind) << ' ' << seed_note());
        const int64_t n = rng.pick({1, 5, 129, 260}), k = rng.pick({1, 17, 128, 300});
        TensorBox x(type, {n, k}, random_layout(rng, 2)), out(FOVEA_E4M3, {n, k}, random_layout(rng, 2));
        TensorBox scale(FOVEA_F32, scale_shape(kind, n, k));
        x.fill([&](int64_t) { return rng.normal() * 0.02; });
        ASSERT_TRUE(run(b.context, QuantizeParams{.x = x, .out = out, .scale = scale}));
        EXPECT_TRUE(out.outside_untouched());
        std::vector<double> largest(static_cast<size_t>(scale.size()));
        const auto group = [&](int64_t i) { return static_cast<size_t>(scale_of(kind, k, i / k, i % k)); };
        for (int64_t i = 0; i < n * k; ++i) largest[group(i)] = std::max(largest[group(i)], std::fabs(x.get(i)));
        std::vector<double> got(largest.size()), best(largest.size(), HUGE_VAL);
        for (int64_t i = 0; i < n * k; ++i) {
          const double s = scale.get(scale_of(kind, k, i / k, i % k)), r = x.get(i) - out.get(i) * s;
          const double nearest = fovea::oracle::round_to(FOVEA_E4M3, x.get(i) / s);
          ASSERT_LE(std::fabs(r), std::fabs(x.get(i) - nearest * s) * 1.0001 + s * 1e-6);
          got[group(i)] += r * r;
        }
        for (const double target : {448, 416, 384, 352, 320, 288, 256, 240}) {
          std::vector<double> errors(largest.size());
          for (int64_t i = 0; i < n * k; ++i) {
            const double s = largest[group(i)] / target;
            const double r = x.get(i) - s * fovea::oracle::round_to(FOVEA_E4M3, x.get(i) / s);
            errors[group(i)] += r * r;
          }
          for (size_t g = 0; g < best.size(); ++g) best[g] = std::min(best[g], errors[g]);
        }
        for (size_t g = 0; g < best.size(); ++g) {
          EXPECT_LE(got[g], best[g] * 1.001 + largest[g] * largest[g] * 1e-12) << "scale " << g;
        }
      }
    }
  }
}

TEST(QuantizeFp8, ErrorsOfNormalWeights) {
  Rng rng = test_rng();
  for (const Kind kind : kKinds) {
    TensorBox x(FOVEA_F32, {256, 1024}), out(FOVEA_E4M3, {256, 1024});
    TensorBox scale(FOVEA_F32, scale_shape(kind, 256, 1024));
    x.fill([&](int64_t) { return rng.normal() * 0.02; });
    ASSERT_TRUE(run(backends()[0].context, QuantizeParams{.x = x, .out = out, .scale = scale}));
    const double error = error_of(x.values(), decoded(kind, out, scale, 1024));
    RecordProperty("kind_" + std::to_string(static_cast<int>(kind)), std::to_string(error));
    EXPECT_LT(error, 0.027);
  }
}

// Codes under a power of two, the largest in the highest binade: they come back.
TEST(QuantizeFp8, RepresentableWeightsStayWhatTheyAre) {
  Rng rng = test_rng();
  for (const Kind kind : kKinds) {
    const int64_t n = 200, k = 333;
    TensorBox x(FOVEA_F32, {n, k}), out(FOVEA_E4M3, {n, k}), scale(FOVEA_F32, scale_shape(kind, n, k));
    x.fill([&](int64_t i) {
      const double step = std::ldexp(1, -static_cast<int>(scale_of(kind, k, i / k, i % k) % 7));
      return step * (i % k % 128 == 0 ? 448.0 : fovea::oracle::round_to(FOVEA_E4M3, rng.normal() * 50));
    });
    ASSERT_TRUE(run(backends()[0].context, QuantizeParams{.x = x, .out = out, .scale = scale}));
    EXPECT_EQ(decoded(kind, out, scale, k), x.values());
  }
}

TEST(QuantizeFp8, BitsDependOnWeightsAlone) {
  Rng rng = test_rng();
  const fovea::Context many = cpu_context(7);
  for (const Kind kind : kKinds) {
    const int64_t n = 150, k = 700;
    std::vector<double> values(static_cast<size_t>(n * k));
    for (double& v : values) v = rng.normal();
    TensorBox x(FOVEA_BF16, {n, k}), want(FOVEA_E4M3, {n, k}), want_scale(FOVEA_F32, scale_shape(kind, n, k));
    x.assign(values);
    ASSERT_TRUE(run(many, QuantizeParams{.x = x, .out = want, .scale = want_scale}));
    for (const Backend& b : backends()) {
      TensorBox other(FOVEA_BF16, {n, k}, random_layout(rng, 2)), out(FOVEA_E4M3, {n, k}, random_layout(rng, 2));
      TensorBox scale(FOVEA_F32, scale_shape(kind, n, k), {.lead = 1});
      other.assign(values);
      const Result result = run(b.context, QuantizeParams{.x = other, .out = out, .scale = scale});
      ASSERT_TRUE(result) << result.message;
      EXPECT_EQ(out.bits(), want.bits()) << b.name;
      EXPECT_EQ(scale.bits(), want_scale.bits()) << b.name;
    }
  }
}

// NaN stays NaN and infinities become +-448, where they stand; scales are those of the other weights.
TEST(QuantizeFp8, NotFiniteZeroAndTiny) {
  const fovea::Context& context = backends()[0].context;
  TensorBox x =
      floats({1, -2, NAN, HUGE_VAL, -HUGE_VAL, 3, 0, 0, 0, 0, 0, 0, 1e-42, 0, 0, 0, 0, 0, NAN, NAN, NAN, NAN, NAN, NAN},
             FOVEA_F32, {4, 6});
  TensorBox out(FOVEA_E4M3, {4, 6}), scale(FOVEA_F32, {4});
  uint32_t status = 0;
  ASSERT_TRUE(run(context, QuantizeParams{.x = x, .out = out, .scale = scale}, {.status = &status}));
  EXPECT_EQ(status, static_cast<uint32_t>(FOVEA_INVALID_VALUE));
  EXPECT_NEAR(out.get(0) * scale.get(0), 1, 0.04);
  EXPECT_TRUE(std::isnan(out.get(2)));
  EXPECT_EQ(out.get(3), 448);
  EXPECT_EQ(out.get(4), -448);
  EXPECT_NEAR(out.get(5) * scale.get(0), 3, 1e-6);
  EXPECT_EQ(scale.get(1), 1);
  EXPECT_EQ(scale.get(2), 0x1p-126);
  EXPECT_EQ(out.get(12), 0);
  EXPECT_EQ(scale.get(3), 1);
  TensorBox untouched(FOVEA_E4M3, {4, 6});
  const Result result =
      run(context, QuantizeParams{.x = x, .out = untouched, .scale = scale}, {.flags = FOVEA_EXEC_CHECK});
  EXPECT_EQ(result.message, "x[0, 2] is nan: must be finite");
  EXPECT_TRUE(untouched.memory().all(kPoison));
}

TEST(QuantizeFp8, EmptySizesAndErrors) {
  const fovea::Context& context = backends()[0].context;
  for (const auto& [n, k] : {std::pair<int64_t, int64_t>{0, 5}, {5, 0}}) {
    TensorBox x(FOVEA_F32, {n, k}), out(FOVEA_E4M3, {n, k}), scale(FOVEA_F32, {1});
    EXPECT_TRUE(run(context, QuantizeParams{.x = x, .out = out, .scale = scale}));
  }
  TensorBox x(FOVEA_F32, {3, 256}), out(FOVEA_E4M3, {3, 256}), scale(FOVEA_F32, {3});
  const auto message = [&](auto&& change) {
    QuantizeParams p{.x = x, .out = out, .scale = scale};
    change(p);
    const Result result = run(context, p);
    EXPECT_TRUE(out.memory().all(kPoison) && scale.memory().all(kPoison));
    return result.message;
  };
  EXPECT_EQ(message([](auto& p) { p.scale = {}; }), "scale is absent: e4m3 weights need scales: [1], [3] or [1, 2]");
  EXPECT_EQ(message([](auto& p) { p.scale.shape[0] = 2; }), "scale.shape is [2]: must be [1], [3] or [1, 2]");
  EXPECT_EQ(message([](auto& p) { p.scale.dtype = FOVEA_F16; }), "scale is f16: must be f32");
  EXPECT_EQ(message([](auto& p) { p.scale.stride[0] = 0; }), "scale.stride[0] is 0: must be 1");
  EXPECT_EQ(message([](auto& p) { p.scale.data = nullptr; }), "scale.data is null: a call needs its memory");
  EXPECT_EQ(message([](auto& p) { p.out.dtype = FOVEA_Q8_0; }), "scale is given: scales are of e4m3 weights alone");
}

}  // namespace
