// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "fovea/fovea.hpp"
#include "ops/weight_box.h"
#include "oracle/matmul64.h"
#include "oracle/numbers.h"
#include "support/backends.h"
#include "support/check.h"
#include "support/tensors.h"

namespace {

using namespace fovea::test;
using fovea::Context;
using fovea::MatmulParams;
using fovea::Result;

constexpr double kU = 0x1p-24;  // half an ulp of f32 at 1

// Sums of k products in f32, in any order, and one rounding to the output type.
std::vector<double> bounds(const fovea::oracle::Product& want, int64_t k, int32_t out) {
  std::vector<double> bound;
  for (size_t i = 0; i < want.out.size(); ++i) {
    bound.push_back(fovea::oracle::ulp(out, want.out[i]) +
                    kU * (8 + std::sqrt(static_cast<double>(k))) * want.magnitude[i]);
  }
  return bound;
}

struct Case {
  int64_t m = 1, n = 8, k = 64;
  int32_t x = FOVEA_F32, w = FOVEA_F32, bias = FOVEA_DTYPE_NONE, out = FOVEA_F32;
};

void check(const Context& context, Rng& rng, const Case& c) {
  SCOPED_TRACE(::testing::Message() << "m " << c.m << " n " << c.n << " k " << c.k << ' ' << fovea_dtype_name(c.x)
                                    << ' ' << fovea_dtype_name(c.w) << " bias " << c.bias << " out "
                                    << fovea_dtype_name(c.out) << ' ' << seed_note());
  TensorBox x(c.x, {c.m, c.k}, random_layout(rng, 2)), out(c.out, {c.m, c.n}, random_layout(rng, 2)), bias;
  x.fill([&](int64_t) { return rng.normal(); });
  if (c.bias != FOVEA_DTYPE_NONE) {
    bias = TensorBox(c.bias, {c.n}, {.lead = rng.integer(0, 3)});
    bias.fill([&](int64_t) { return rng.normal() * 3; });
  }
  const WeightBox w(rng, c.w, c.n, c.k, rng.pick({0, 0, 1, 3}) * block_of(c.w), rng.pick({Place::begin, Place::end}));
  const Result result = run(context, MatmulParams{.x = x, .w = w.view(), .bias = bias, .out = out});
  ASSERT_EQ(result.code, FOVEA_OK) << result.message;
  const auto want =
      fovea::oracle::matmul64(x.values(), w.values(), bias ? bias.values() : std::vector<double>(), c.m, c.n, c.k);
  EXPECT_TRUE(within(out, want.out, bounds(want, c.k, c.out)));
  EXPECT_TRUE(out.outside_untouched());
}

TEST(Matmul, MatchesTheReferenceForEveryTypeAndTail) {
  for (const Backend& b : backends()) {
    SCOPED_TRACE(b.name);
    Rng rng = test_rng();
    for (const int32_t w : kWeightDtypes) {
      for (const int64_t m : {1, 2, 3, 4, 5, 6, 7, 8, 11, 48, 95, 96, 97, 193}) {
        Case c{.m = m, .n = rng.integer(1, 40), .k = rng.integer(1, 600), .w = w};
        if (is_block(w)) c.k = (c.k + block_of(w)) / block_of(w) * block_of(w);
        c.x = rng.pick({FOVEA_F32, FOVEA_F16, FOVEA_BF16});
        c.out = rng.pick({FOVEA_F32, FOVEA_F16, FOVEA_BF16});
        c.bias = rng.pick({FOVEA_DTYPE_NONE, FOVEA_F32, FOVEA_F16, FOVEA_BF16});
        check(b.context, rng, c);
      }
    }
  }
}

TEST(Matmul, EveryWidthOfKAndN) {
  Rng rng = test_rng();
  const Context& context = backends()[0].context;
  for (int64_t k = 1; k <= 70; ++k) check(context, rng, {.m = 3, .n = 5, .k = k, .w = FOVEA_BF16});
  for (int64_t n = 1; n <= 33; ++n) check(context, rng, {.m = 2, .n = n, .k = 300, .bias = FOVEA_F32});
  for (const int64_t k : {255, 256, 257, 1023, 1024, 1025, 2047, 2048, 2049})
    check(context, rng, {.m = 2, .n = 9, .k = k});
}

// One task decodes many rows of w, several tasks share one block of rows of x.
TEST(Matmul, ManyTasks) {
  Rng rng = test_rng();
  for (const Backend& b : backends()) {
    check(b.context, rng, {.m = 1, .n = 3000, .k = 96, .w = FOVEA_Q4_1});
    check(b.context, rng, {.m = 100, .n = 150, .k = 2112, .x = FOVEA_BF16, .w = FOVEA_Q8_0});
  }
}

TEST(Matmul, WithoutKItIsTheBiasOrZero) {
  const Context& context = backends()[0].context;
  TensorBox x(FOVEA_F32, {3, 0}), w(FOVEA_F32, {5, 0}), out(FOVEA_F16, {3, 5}), bias(FOVEA_F32, {5});
  bias.fill([](int64_t i) { return static_cast<double>(i) - 2; });
  ASSERT_TRUE(run(context, MatmulParams{.x = x, .w = w, .out = out}));
  EXPECT_TRUE(within(out, std::vector<double>(15, 0.0), 0));
  ASSERT_TRUE(run(context, MatmulParams{.x = x, .w = w, .bias = bias, .out = out}));
  std::vector<double> want;
  for (int i = 0; i < 15; ++i) want.push_back(i % 5 - 2);
  EXPECT_TRUE(within(out, want, 0));
}

TEST(Matmul, NoRowsOrNoColumnsIsNoWork) {
  const Context& context = backends()[0].context;
  Rng rng = test_rng();
  const WeightBox w(rng, FOVEA_Q8_0, 4, 64), none(rng, FOVEA_Q8_0, 0, 64);
  EXPECT_TRUE(run(context, MatmulParams{.x = fovea::tensor(nullptr, FOVEA_F32, {0, 64}),
                                        .w = w.view(),
                                        .out = fovea::tensor(nullptr, FOVEA_F32, {0, 4})}));
  TensorBox x(FOVEA_F32, {2, 64});
  EXPECT_TRUE(run(context, MatmulParams{.x = x, .w = none.view(), .out = fovea::tensor(nullptr, FOVEA_F32, {2, 0})}));
}

// K01: a row has the same bits alone, in any batch, and on any number of threads.
TEST(Matmul, RowBitsDoNotDependOnBatchOrThreads) {
  for (const Backend& b : backends()) {
    SCOPED_TRACE(b.name);
    Rng rng = test_rng();
    for (const int32_t type : kWeightDtypes) {
      constexpr int64_t kM = 101, kN = 83;
      const int64_t kK = block_of(type) == 256 ? 1280 : 1312;  // more than a stretch, and no whole runs of blocks
      const WeightBox w(rng, type, kN, kK);
      TensorBox x(FOVEA_F32, {kM, kK}), all(FOVEA_F32, {kM, kN});
      x.fill([&](int64_t) { return rng.normal(); });
      ASSERT_TRUE(run(b.context, MatmulParams{.x = x, .w = w.view(), .out = all}));
      const std::vector<std::byte> bits = all.bits();
      for (const int64_t m : {1, 2, 3, 4, 5, 6, 7, 8, 9, 48, 96, 97}) {
        for (const int32_t threads : {1, 3}) {
          const int64_t first = rng.integer(0, kM - m);
          TensorBox some(FOVEA_F32, {m, kN});
          ASSERT_TRUE(run(cpu_context(threads, b.context.info().isa),
                          MatmulParams{.x = slice(x, 0, first, first + m), .w = w.view(), .out = some}));
          EXPECT_EQ(std::memcmp(some.bits().data(), bits.data() + first * kN * 4, static_cast<size_t>(m * kN * 4)), 0)
              << fovea_dtype_name(type) << " rows " << first << " to " << first + m;
        }
      }
    }
  }
}

// A row of x that picks one weight shows it exactly: no activation is quantised, no weight rounded.
TEST(Matmul, WeightsOfEveryTypeAreExact) {
  for (const Backend& b : backends()) {
    SCOPED_TRACE(b.name);
    Rng rng = test_rng();
    for (const int32_t type : kWeightDtypes) {
      constexpr int64_t kN = 9;
      const int64_t kK = block_of(type) == 256 ? 256 : 96;
      const WeightBox w(rng, type, kN, kK);
      const std::vector<double> values = w.values();
      TensorBox x(FOVEA_F32, {kK, kK}), out(FOVEA_F32, {kK, kN});
      x.fill([&](int64_t i) { return i / kK == i % kK ? 1.0 : 0.0; });
      ASSERT_TRUE(run(b.context, MatmulParams{.x = x, .w = w.view(), .out = out}));
      std::vector<double> want;
      for (int64_t i = 0; i < kK * kN; ++i) {
        want.push_back(fovea::oracle::round_to(FOVEA_F32, values[static_cast<size_t>(i % kN * kK + i / kN)]));
      }
      EXPECT_TRUE(within(out, want, 0)) << fovea_dtype_name(type);
    }
  }
}

// D26: no pointer is aligned beyond its element; block rows begin at any byte.
TEST(Matmul, AnyAlignment) {
  Rng rng = test_rng();
  for (const Backend& b : backends()) {
    for (const int32_t type : kWeightDtypes) {
      for (const int64_t lead : {1, 2, 3, 5}) {
        const int64_t bytes = is_block(type) ? lead : lead * fovea::oracle::bytes_of(type);
        const int64_t k = block_of(type) == 256 ? 256 : 64;
        const WeightBox w(rng, type, 11, k, 0, Place::begin, bytes);
        TensorBox x(FOVEA_BF16, {2, k}, {.lead = lead}), out(FOVEA_F32, {2, 11}, {.lead = lead, .place = Place::begin});
        x.fill([&](int64_t) { return rng.normal(); });
        ASSERT_TRUE(run(b.context, MatmulParams{.x = x, .w = w.view(), .out = out}));
        const auto want = fovea::oracle::matmul64(x.values(), w.values(), {}, 2, 11, k);
        EXPECT_TRUE(within(out, want.out, bounds(want, k, FOVEA_F32)));
      }
    }
  }
}

// C07: strides beyond 2^31 elements.
TEST(Matmul, StridesBeyondThirtyTwoBits) {
  constexpr int64_t kStride = (int64_t{1} << 31) + 64;
  Rng rng = test_rng();
  const Sparse x_memory((kStride + 64) * 2), w_memory((kStride + 64) * 2);
  auto wide = [&](const Sparse& memory) { return fovea::tensor(memory.data(), FOVEA_F16, {2, 64}, {kStride, 1}); };
  const fovea_tensor x = wide(x_memory), w = wide(w_memory);
  for (int64_t i = 0; i < 128; ++i) {
    fovea::oracle::encode(FOVEA_F16, element(x, i), rng.normal());
    fovea::oracle::encode(FOVEA_F16, element(w, i), rng.normal());
  }
  TensorBox out(FOVEA_F32, {2, 2});
  ASSERT_TRUE(run(backends()[0].context, MatmulParams{.x = x, .w = w, .out = out}));
  const auto want = fovea::oracle::matmul64(values_of(x), values_of(w), {}, 2, 2, 64);
  EXPECT_TRUE(within(out, want.out, bounds(want, 64, FOVEA_F32)));
}

// D16: rows that run backwards, or that are all one row.
TEST(Matmul, ReversedAndRepeatedRows) {
  Rng rng = test_rng();
  for (const Layout& layout : {Layout{.reversed = 1}, Layout{.broadcast = 1}}) {
    TensorBox x(FOVEA_F32, {7, 40}, layout), w(FOVEA_F32, {12, 40}, layout), out(FOVEA_F32, {7, 12}, {.reversed = 1});
    x.fill([&](int64_t) { return rng.normal(); });
    w.fill([&](int64_t) { return rng.normal(); });
    ASSERT_TRUE(run(backends()[0].context, MatmulParams{.x = x, .w = w, .out = out}));
    const auto want = fovea::oracle::matmul64(x.values(), w.values(), {}, 7, 12, 40);
    EXPECT_TRUE(within(out, want.out, bounds(want, 40, FOVEA_F32)));
  }
}

TEST(Matmul, NaNStaysInItsRowAndColumn) {
  for (const Backend& b : backends()) {
    Rng rng = test_rng();
    TensorBox x(FOVEA_F32, {9, 33}), w(FOVEA_F32, {13, 33}), out(FOVEA_F32, {9, 13});
    x.fill([&](int64_t) { return rng.normal(); });
    w.fill([&](int64_t) { return rng.normal(); });
    x.set(4 * 33 + 32, NAN);
    w.set(7 * 33 + 1, HUGE_VAL);
    ASSERT_TRUE(run(b.context, MatmulParams{.x = x, .w = w, .out = out}));
    for (int64_t i = 0; i < 9 * 13; ++i) {
      const bool finite = i / 13 != 4 && i % 13 != 7;
      EXPECT_EQ(std::isfinite(out.get(i)), finite) << index_text(out, i);
    }
  }
}

TEST(Matmul, ErrorsNameTheArgument) {
  const Context& context = backends()[0].context;
  Rng rng = test_rng();
  const WeightBox w(rng, FOVEA_Q4_1, 8, 64);
  TensorBox x(FOVEA_F32, {2, 64}), out(FOVEA_F32, {2, 8}), bias(FOVEA_F32, {7});
  const MatmulParams good{.x = x, .w = w.view(), .out = out};
  const auto message = [&](auto&& change) {
    MatmulParams p = good;
    change(p);
    const Result result = run(context, p);
    EXPECT_NE(result.code, FOVEA_OK);
    return result.message;
  };
  EXPECT_EQ(message([&](auto& p) { p.w.shape[1] = 32; }), "w.shape[1] is 32: must be 64 (x.shape[1])");
  EXPECT_EQ(message([&](auto& p) { p.w.dtype = FOVEA_U8; }),
            "w is u8: must be one of f32, f16, bf16, e4m3, q4_0, q4_1, q5_0, q5_1, q8_0, q2_k, q3_k, q4_k, q5_k, q6_k, "
            "iq4_nl, mxfp4");
  EXPECT_EQ(message([&](auto& p) { p.x.dtype = FOVEA_I32; }), "x is i32: must be one of f32, f16, bf16");
  EXPECT_EQ(message([&](auto& p) { p.bias = bias; }), "bias.shape[0] is 7: must be 8 (w.shape[0])");
  EXPECT_EQ(message([&](auto& p) { p.out.shape[0] = 3; }), "out.shape[0] is 3: must be 2 (x.shape[0])");
  EXPECT_EQ(message([&](auto& p) { p.out.stride[0] = 0; }), "out.stride[0] is 0: an output must not repeat elements");
  EXPECT_EQ(message([&](auto& p) { p.w.stride[0] = 48; }), "w.stride[0] is 48: must be a multiple of the block of 32");
  EXPECT_EQ(message([&](auto& p) { p.w.dtype = FOVEA_Q4_K; }),
            "w.shape[1] is 64: must be a multiple of the block of 256");
  EXPECT_EQ(message([&](auto& p) { p.x.data = nullptr; }), "x.data is null: a call needs its memory");
  EXPECT_TRUE(out.memory().all(kPoison)) << "written in spite of an error";
}

TEST(Matmul, ExplainNamesTheKernelAndTheTiles) {
  TensorBox x(FOVEA_F32, {1, 64}), w(FOVEA_F32, {8, 64}), out(FOVEA_F32, {1, 8});
  const std::string text = backends()[0].context.plan(MatmulParams{.x = x, .w = w, .out = out}).explain();
  EXPECT_NE(text.find("cpu_dot"), std::string::npos) << text;
  EXPECT_NE(text.find("tasks of up to 1 rows of x and 8 rows of w"), std::string::npos) << text;
}

}  // namespace
