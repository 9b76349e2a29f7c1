// SPDX-License-Identifier: Apache-2.0
// e4m3 weights of matmul and embed, with scales of the tensor, of each row, and of blocks of 128 x 128.
#include <gtest/gtest.h>

#include <cmath>

#include "fovea/fovea.hpp"
#include "ops/weight_box.h"
#include "oracle/matmul64.h"
#include "oracle/numbers.h"
#include "support/backends.h"
#include "support/check.h"
#include "support/tensors.h"

namespace {

using namespace fovea::test;
using fovea::EmbedParams;
using fovea::MatmulParams;
using fovea::Result;

enum Kind { kTensor, kChannel, kBlock };
constexpr Kind kKinds[] = {kTensor, kChannel, kBlock};

struct Fp8 {
  TensorBox w, scale;
  std::vector<double> values;  // [n, k]: code times scale, rounded to f32
};

Fp8 random_weights(Rng& rng, Kind kind, int32_t scale_type, int64_t n, int64_t k) {
  const int64_t rows = (n + 127) / 128, columns = (k + 127) / 128;
  Fp8 f{.w = TensorBox(FOVEA_E4M3, {n, k}, random_layout(rng, 2)),
        .scale = kind == kTensor    ? TensorBox(scale_type, {1})
                 : kind == kChannel ? TensorBox(scale_type, {n}, {.lead = rng.integer(0, 3)})
                                    : TensorBox(scale_type, {rows, columns}, random_layout(rng, 2)),
        .values = {}};
  f.w.fill([&](int64_t) { return rng.normal() * 20; });
  f.scale.fill([&](int64_t) { return rng.normal() * 0.1; });
  for (int64_t i = 0; i < n * k; ++i) {
    const int64_t row = i / k, column = i % k;
    const int64_t at = kind == kTensor ? 0 : kind == kChannel ? row : row / 128 * columns + column / 128;
    f.values.push_back(fovea::oracle::round_to(FOVEA_F32, f.w.get(i) * f.scale.get(at)));
  }
  return f;
}

TEST(Fp8Weights, MatmulMatchesTheReferenceForEveryKindOfScale) {
  for (const Backend& b : backends()) {
    Rng rng = test_rng();
    for (const Kind kind : kKinds) {
      for (const int32_t scale_type : kFloatDtypes) {
        for (const int64_t m : {1, 5, 49}) {
          const int64_t n = rng.integer(1, 300), k = rng.integer(1, 700);
          SCOPED_TRACE(::testing::Message() << b.name << " kind " << kind << ' ' << fovea_dtype_name(scale_type)
                                            << " m " << m << " n " << n << " k " << k << ' ' << seed_note());
          const Fp8 f = random_weights(rng, kind, scale_type, n, k);
          TensorBox x(FOVEA_BF16, {m, k}, random_layout(rng, 2)), out(FOVEA_F32, {m, n}, random_layout(rng, 2));
          x.fill([&](int64_t) { return rng.normal(); });
          const Result result = run(b.context, MatmulParams{.x = x, .w = f.w, .w_scale = f.scale, .out = out});
          ASSERT_TRUE(result) << result.message;
          const auto want = fovea::oracle::matmul64(x.values(), f.values, {}, m, n, k);
          std::vector<double> bounds;
          for (size_t i = 0; i < want.out.size(); ++i) {
            bounds.push_back(fovea::oracle::ulp(FOVEA_F32, want.out[i]) +
                             0x1p-24 * (8 + std::sqrt(static_cast<double>(k))) * want.magnitude[i]);
          }
          EXPECT_TRUE(within(out, want.out, bounds));
          EXPECT_TRUE(out.outside_untouched());
        }
      }
    }
  }
}

TEST(Fp8Weights, EmbedToTheBitForEveryKindOfScale) {
  for (const Backend& b : backends()) {
    Rng rng = test_rng();
    for (const Kind kind : kKinds) {
      const int64_t vocab = 200, n = rng.integer(257, 400);
      SCOPED_TRACE(::testing::Message() << b.name << " kind " << kind << ' ' << seed_note());
      const Fp8 f = random_weights(rng, kind, rng.pick({FOVEA_F32, FOVEA_F16, FOVEA_BF16}), vocab, n);
      std::vector<int64_t> ids;
      std::vector<double> want;
      for (int t = 0; t < 40; ++t) {
        ids.push_back(rng.integer(0, vocab - 1));
        for (int64_t i = 0; i < n; ++i) want.push_back(f.values[static_cast<size_t>(ids.back() * n + i)]);
      }
      TensorBox out(FOVEA_F32, {40, n});
      const Result result =
          run(b.context, EmbedParams{.ids = indices(ids), .table = f.w, .table_scale = f.scale, .out = out});
      ASSERT_TRUE(result) << result.message;
      EXPECT_TRUE(within(out, want, 0));
    }
  }
}

// A NaN code spoils its column; an infinite scale of weights that are all there are spoils no lane beyond k.
TEST(Fp8Weights, NaNStaysNaN) {
  for (const Backend& b : backends()) {
    Rng rng = test_rng();
    Fp8 f = random_weights(rng, kChannel, FOVEA_F32, 9, 21);
    f.w.fill([](int64_t) { return 1.0; });
    f.w.set(3 * 21 + 20, NAN);
    f.scale.set(5, HUGE_VAL);
    TensorBox x(FOVEA_F32, {2, 21}), out(FOVEA_F32, {2, 9});
    x.fill([](int64_t) { return 1.0; });
    ASSERT_TRUE(run(b.context, MatmulParams{.x = x, .w = f.w, .w_scale = f.scale, .out = out}));
    for (int64_t i = 0; i < 18; ++i) {
      EXPECT_EQ(std::isnan(out.get(i)), i % 9 == 3) << i;
      EXPECT_EQ(std::isinf(out.get(i)), i % 9 == 5) << i;
    }
  }
}

TEST(Fp8Weights, ErrorsNameTheScale) {
  const fovea::Context& context = backends()[0].context;
  TensorBox x(FOVEA_F32, {2, 130}), w(FOVEA_E4M3, {8, 130}), f16(FOVEA_F16, {8, 130}), out(FOVEA_F32, {2, 8});
  TensorBox one(FOVEA_F32, {1}), seven(FOVEA_F32, {7}), blocks(FOVEA_F32, {1, 2}), turned(FOVEA_F32, {2, 1});
  TensorBox bytes(FOVEA_U8, {1});
  const auto message = [&](const fovea_tensor& weights, const fovea_tensor& scale) {
    return run(context, MatmulParams{.x = x, .w = weights, .w_scale = scale, .out = out}).message;
  };
  const std::string allowed = "[1], [8] or [1, 2]";
  EXPECT_EQ(message(w, {}), "w_scale is absent: e4m3 weights need scales: " + allowed);
  EXPECT_EQ(message(w, seven), "w_scale.shape is [7]: must be " + allowed);
  EXPECT_EQ(message(w, turned), "w_scale.shape is [2, 1]: must be " + allowed);
  EXPECT_EQ(message(w, bytes), "w_scale is u8: must be one of f32, f16, bf16");
  EXPECT_EQ(message(f16, one), "w_scale is given: scales are of e4m3 weights alone");
  EXPECT_EQ(message(w, fovea::tensor(nullptr, FOVEA_F32, {8})), "w_scale.data is null: a call needs its memory");
  EXPECT_TRUE(out.memory().all(kPoison)) << "written in spite of an error";
  TensorBox rows(FOVEA_F32, {1, 130});
  EXPECT_EQ(run(context, EmbedParams{.ids = indices({1}), .table = w, .out = rows}).message,
            "table_scale is absent: e4m3 weights need scales: " + allowed);

  // A plan keeps the kind of its scales.
  const auto plan = context.plan(MatmulParams{.x = x, .w = w, .w_scale = blocks, .out = out});
  fovea::HostWorkspace workspace;
  EXPECT_THROW(plan.run(MatmulParams{.x = x, .w = w, .w_scale = one, .out = out}, workspace.exec(plan)), fovea::Error);
}

}  // namespace
