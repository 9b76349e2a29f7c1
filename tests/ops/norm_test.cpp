// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "fovea/fovea.hpp"
#include "oracle/norm64.h"
#include "oracle/numbers.h"
#include "support/backends.h"
#include "support/check.h"
#include "support/tensors.h"

namespace {

using namespace fovea::test;
using fovea::NormParams;
using fovea::Result;
namespace oracle = fovea::oracle;

// The tensors of one call.
struct Operands {
  TensorBox x, out, residual = {}, residual_out = {}, gate = {}, weight = {}, bias = {};
};

NormParams params_of(const Operands& t, NormParams options) {
  options.x = t.x;
  options.out = t.out;
  options.residual = t.residual;
  options.residual_out = t.residual_out;
  options.gate = t.gate;
  options.weight = t.weight;
  options.bias = t.bias;
  return options;
}

std::vector<double> row_of(const TensorBox& t, int64_t r, int64_t n) {
  std::vector<double> row;
  for (int64_t i = 0; t && i < n; ++i) row.push_back(t.get(r * n + i));
  return row;
}

// Compares every element of out and residual_out with fp64. Call before running where out is x.
struct Expected {
  std::vector<double> out, bound, sum, sum_bound;
  Expected(const Operands& t, const NormParams& p, int64_t n) {
    const auto out_type = t.out.view().dtype;
    for (int64_t r = 0; r < t.x.size() / n; ++r) {
      const oracle::NormResult row = oracle::norm64({.kind = static_cast<oracle::Norm>(p.kind),
                                                     .gate_kind = static_cast<oracle::Gate>(p.gate_kind),
                                                     .gate_first = p.gate_first != 0,
                                                     .eps = static_cast<double>(p.eps),
                                                     .weight_offset = static_cast<double>(p.weight_offset),
                                                     .x = row_of(t.x, r, n),
                                                     .residual = row_of(t.residual, r, n),
                                                     .gate = row_of(t.gate, r, n),
                                                     .weight = t.weight ? t.weight.values() : std::vector<double>(),
                                                     .bias = t.bias ? t.bias.values() : std::vector<double>()});
      for (int64_t i = 0; i < n; ++i) {
        const auto at = static_cast<size_t>(i);
        out.push_back(row.out[at]);
        bound.push_back(oracle::ulp(out_type, row.out[at]) +
                        0x1p-24 * (16 + std::sqrt(static_cast<double>(n))) * row.magnitude[at]);
        sum.push_back(row.sum[at]);
        if (t.residual_out) sum_bound.push_back(oracle::ulp(t.residual_out.view().dtype, row.sum[at]));
      }
    }
  }
};

TEST(Norm, EveryKindOperandTypeAndLayout) {
  for (const Backend& b : backends()) {
    SCOPED_TRACE(b.name);
    Rng rng = test_rng();
    for (int repeat = 0; repeat < 200; ++repeat) {
      SCOPED_TRACE(::testing::Message() << "case " << repeat << ' ' << seed_note());
      NormParams p;
      p.kind = static_cast<int32_t>(rng.integer(0, 2));
      p.eps = rng.pick({1e-6f, 1e-5f, 0.1f});
      const int rank = static_cast<int>(rng.integer(2, 4));
      const int64_t n = rng.pick({1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 33, 64, 100, 128, 576, 769});
      std::vector<int64_t> shape = {rng.integer(1, 3), rng.integer(1, 4), rng.integer(1, 5)};
      shape.resize(static_cast<size_t>(rank - 1));
      shape.push_back(n);
      const auto like_x = [&](double size) {
        TensorBox t(rng.pick({FOVEA_F32, FOVEA_F16, FOVEA_BF16}), shape, random_layout(rng, rank));
        t.fill([&](int64_t) { return rng.normal() * size; });
        return t;
      };
      const auto vector = [&] {
        TensorBox t(rng.pick({FOVEA_F32, FOVEA_F16, FOVEA_BF16}), {n}, {.lead = rng.integer(0, 3)});
        t.fill([&](int64_t) { return rng.normal(); });
        return t;
      };
      Operands t;
      t.x = like_x(rng.pick({1e-2, 1.0, 30.0}));
      t.out = TensorBox(rng.pick({FOVEA_F32, FOVEA_F16, FOVEA_BF16}), shape, random_layout(rng, rank));
      if (rng.chance(0.5)) t.residual = like_x(2);
      if (t.residual && rng.chance(0.5)) {
        t.residual_out = TensorBox(rng.pick({FOVEA_F32, FOVEA_BF16}), shape, random_layout(rng, rank));
      }
      if (rng.chance(0.5)) {
        t.gate = like_x(2);
        p.gate_kind = static_cast<int32_t>(rng.integer(1, 2));
        p.gate_first = rng.chance(0.5);
      }
      if (p.kind != FOVEA_NORM_L2 && rng.chance(0.7)) t.weight = vector();
      if (t.weight && rng.chance(0.5)) p.weight_offset = 1;
      if (p.kind == FOVEA_NORM_LAYER && rng.chance(0.7)) t.bias = vector();
      const Expected want(t, p, n);
      const Result result = run(b.context, params_of(t, p));
      ASSERT_TRUE(result) << result.message;
      EXPECT_TRUE(within(t.out, want.out, want.bound)) << "kind " << p.kind << " n " << n;
      EXPECT_TRUE(t.out.outside_untouched());
      if (t.residual_out) {
        EXPECT_TRUE(within(t.residual_out, want.sum, want.sum_bound));
        EXPECT_TRUE(t.residual_out.outside_untouched());
      }
    }
  }
}

// D24: odd widths, each row beside a neighbour.
TEST(Norm, OddWidthsLeaveTheirNeighbours) {
  for (const Backend& b : backends()) {
    for (int64_t n = 1; n <= 70; ++n) {
      Rng rng = test_rng(static_cast<uint64_t>(n));
      Operands t{.x = TensorBox(FOVEA_F16, {3, n}), .out = TensorBox(FOVEA_F16, {3, n}, {.pad = {0, 1}})};
      t.x.fill([&](int64_t) { return rng.normal(); });
      const NormParams p;
      const Expected want(t, p, n);
      ASSERT_TRUE(run(b.context, params_of(t, p)));
      EXPECT_TRUE(within(t.out, want.out, want.bound)) << n;
      EXPECT_TRUE(t.out.outside_untouched()) << n;
    }
  }
}

TEST(Norm, InPlaceIsTheSameToTheBit) {
  for (const Backend& b : backends()) {
    Rng rng = test_rng();
    for (const int32_t kind : {FOVEA_NORM_RMS, FOVEA_NORM_LAYER, FOVEA_NORM_L2}) {
      Operands apart;
      for (TensorBox* t : {&apart.x, &apart.residual}) {
        *t = TensorBox(FOVEA_BF16, {5, 99});
        t->fill([&](int64_t) { return rng.normal(); });
      }
      apart.out = TensorBox(FOVEA_BF16, {5, 99});
      apart.residual_out = TensorBox(FOVEA_BF16, {5, 99});
      NormParams p = params_of(apart, {.kind = kind});
      ASSERT_TRUE(run(b.context, p));
      p.out = p.x;
      p.residual_out = p.residual;
      ASSERT_TRUE(run(b.context, p));
      EXPECT_EQ(apart.x.bits(), apart.out.bits());
      EXPECT_EQ(apart.residual.bits(), apart.residual_out.bits());
    }
  }
}

TEST(Norm, RowBitsDoNotDependOnBatchThreadsOrLayout) {
  for (const Backend& b : backends()) {
    Rng rng = test_rng();
    TensorBox x(FOVEA_F32, {700, 129}), all(FOVEA_F32, {700, 129});
    x.fill([&](int64_t) { return rng.normal(); });
    ASSERT_TRUE(run(b.context, NormParams{.x = x, .out = all}));
    const std::vector<std::byte> bits = all.bits();
    for (const int32_t threads : {1, 3}) {
      for (const int64_t row : {0, 1, 350, 699}) {
        TensorBox one(FOVEA_F32, {1, 129}, random_layout(rng, 2)), copy(FOVEA_F32, {1, 129}, random_layout(rng, 2));
        copy.fill([&](int64_t i) { return x.get(row * 129 + i); });
        ASSERT_TRUE(run(cpu_context(threads, b.context.info().isa), NormParams{.x = copy, .out = one}));
        EXPECT_EQ(std::memcmp(one.bits().data(), bits.data() + row * 129 * 4, 129 * 4), 0);
      }
    }
  }
}

TEST(Norm, ARowWithNothingToDivideByGivesZero) {
  for (const Backend& b : backends()) {
    for (const int32_t kind : {FOVEA_NORM_RMS, FOVEA_NORM_LAYER, FOVEA_NORM_L2}) {
      TensorBox x(FOVEA_F32, {2, 21}), out(FOVEA_F32, {2, 21});
      x.fill([&](int64_t) { return 0.0; });
      ASSERT_TRUE(run(b.context, NormParams{.kind = kind, .x = x, .out = out, .eps = 0}));
      EXPECT_TRUE(within(out, std::vector<double>(42, 0.0), 0)) << kind;
    }
  }
}

TEST(Norm, NaNStaysInItsRow) {
  for (const Backend& b : backends()) {
    TensorBox x(FOVEA_BF16, {3, 40}), out(FOVEA_F32, {3, 40});
    x.fill([](int64_t i) { return i == 41 ? NAN : 1.0; });
    ASSERT_TRUE(run(b.context, NormParams{.x = x, .out = out}));
    for (int64_t i = 0; i < 120; ++i) EXPECT_EQ(std::isnan(out.get(i)), i / 40 == 1);
  }
}

// C06, C07: strides of 2^31 elements, rows whose product with the width is beyond 2^31.
TEST(Norm, StridesBeyondThirtyTwoBits) {
  constexpr int64_t kStride = int64_t{1} << 31;
  const Sparse memory((2 * kStride + 4 * 128) * 2);
  const fovea_tensor x = fovea::tensor(memory.data(), FOVEA_BF16, {3, 4, 128}, {kStride, 128, 1});
  Rng rng = test_rng();
  for (int64_t i = 0; i < 3 * 4 * 128; ++i) oracle::encode(FOVEA_BF16, element(x, i), rng.normal());
  Operands t{.x = TensorBox(FOVEA_BF16, {3, 4, 128}), .out = TensorBox(FOVEA_F32, {3, 4, 128})};
  t.x.assign(values_of(x));
  NormParams p = params_of(t, {});
  const Expected want(t, p, 128);
  p.x = x;
  ASSERT_TRUE(run(backends()[0].context, p));
  EXPECT_TRUE(within(t.out, want.out, want.bound));
}

TEST(Norm, EmptyTensors) {
  TensorBox x(FOVEA_F32, {0, 8}), out(FOVEA_F32, {0, 8});
  EXPECT_TRUE(run(backends()[0].context, NormParams{.x = x, .out = out}));
}

// Each option changes the output.
TEST(Norm, EveryOptionActs) {
  Rng rng = test_rng();
  Operands t{.x = TensorBox(FOVEA_F32, {2, 32}), .out = TensorBox(FOVEA_F32, {2, 32})};
  TensorBox other(FOVEA_F32, {2, 32}), vector(FOVEA_F32, {32});
  for (const TensorBox* box : {&t.x, &other}) box->fill([&](int64_t) { return rng.normal(); });
  vector.fill([&](int64_t) { return rng.normal(); });
  const auto result = [&](auto&& change) {
    NormParams p = params_of(t, {.kind = FOVEA_NORM_LAYER});
    p.weight = vector;
    change(p);
    EXPECT_TRUE(run(backends()[0].context, p));
    return t.out.bits();
  };
  const std::vector<std::byte> plain = result([](auto&) {});
  EXPECT_NE(plain, result([](auto& p) { p.kind = FOVEA_NORM_RMS; }));
  EXPECT_NE(plain, result([](auto& p) { p.eps = 0.5f; }));
  EXPECT_NE(plain, result([](auto& p) { p.weight_offset = 1; }));
  EXPECT_NE(plain, result([&](auto& p) { p.bias = vector; }));
  EXPECT_NE(plain, result([&](auto& p) { p.residual = other; }));
  const auto gated = [&](int32_t kind, int32_t first) {
    return result([&](auto& p) { p.gate = other, p.gate_kind = kind, p.gate_first = first; });
  };
  EXPECT_NE(plain, gated(1, 0));
  EXPECT_NE(gated(1, 0), gated(2, 0));
  EXPECT_NE(gated(1, 0), gated(1, 1));
}

TEST(Norm, ErrorsNameTheArgument) {
  TensorBox x(FOVEA_F32, {2, 8}), out(FOVEA_F32, {2, 8}), w(FOVEA_F32, {8});
  const auto message = [&](auto&& change) {
    NormParams p{.x = x, .out = out};
    change(p);
    const Result result = run(backends()[0].context, p);
    EXPECT_NE(result.code, FOVEA_OK);
    EXPECT_TRUE(out.memory().all(kPoison));
    return result.message;
  };
  EXPECT_EQ(message([](auto& p) { p.out.shape[0] = 1; }), "out.shape is [1, 8]: must be [2, 8] (x)");
  EXPECT_EQ(message([](auto& p) { p.kind = 3; }).substr(0, 9), "kind is 3");
  EXPECT_EQ(message([](auto& p) { p.eps = -1; }), "eps is -1: must be finite and not negative");
  EXPECT_EQ(message([](auto& p) { p.weight_offset = 1; }), "weight_offset is 1: needs a weight");
  EXPECT_EQ(message([&](auto& p) { p.bias = w; }), "bias is given: only the layer norm has a bias");
  EXPECT_EQ(message([&](auto& p) { p.kind = FOVEA_NORM_L2, p.weight = w; }),
            "weight is given: the L2 norm has no weight");
  EXPECT_EQ(message([&](auto& p) { p.gate = x; }), "gate is given: gate_kind is FOVEA_GATE_NONE");
  EXPECT_EQ(message([&](auto& p) { p.gate_kind = 1; }), "gate is absent: must be one of f32, f16, bf16");
  EXPECT_EQ(message([&](auto& p) { p.gate_first = 1; }), "gate_first is 1: needs a gate");
  EXPECT_EQ(message([&](auto& p) { p.residual_out = x; }), "residual_out is given: needs residual");
  EXPECT_EQ(message([](auto& p) { p.x.shape[1] = p.out.shape[1] = 0; }),
            "x.shape is [2, 0]: the last dimension must not be 0");
  EXPECT_EQ(message([](auto& p) { p.x.dtype = FOVEA_E4M3; }), "x is e4m3: must be one of f32, f16, bf16");
}

}  // namespace
