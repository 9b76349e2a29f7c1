// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "fovea/fovea.hpp"
#include "oracle/glu64.h"
#include "oracle/numbers.h"
#include "support/backends.h"
#include "support/check.h"
#include "support/tensors.h"

namespace {

using namespace fovea::test;
using fovea::GluParams;
using fovea::Result;
using fovea::oracle::Glu;
using fovea::oracle::glu64;

constexpr Glu kKinds[] = {Glu::silu, Glu::gelu_tanh, Glu::gelu_erf, Glu::clamped_swiglu};
constexpr int32_t kFloats[] = {FOVEA_F32, FOVEA_F16, FOVEA_BF16};
constexpr double kUlps = 8;         // of f32, relative
constexpr double kTiny = 0x1p-120;  // absolute

double bound_of(double want, int32_t out) {
  return (out == FOVEA_F32 ? 0 : fovea::oracle::ulp(out, want) * 0.5000001) + kUlps * 0x1p-24 * std::fabs(want) + kTiny;
}

GluParams params_of(Glu kind) {
  return {.kind = static_cast<int32_t>(kind)};
}

// Runs gate and up through one call and checks every element.
void check(const fovea::Context& context, GluParams p, const TensorBox& gate, const TensorBox& up, TensorBox& out) {
  p.gate = gate;
  p.up = up;
  p.out = out;
  const Result result = run(context, p);
  ASSERT_TRUE(result) << result.message;
  std::vector<double> want, bound;
  for (int64_t i = 0; i < gate.size(); ++i) {
    want.push_back(glu64(static_cast<Glu>(p.kind), gate.get(i), up.get(i), static_cast<double>(p.alpha),
                         static_cast<double>(p.limit)));
    if (std::fabs(want.back()) > fovea::oracle::largest(p.out.dtype))
      want.back() = std::copysign(HUGE_VAL, want.back());
    bound.push_back(bound_of(want.back(), p.out.dtype));
  }
  EXPECT_TRUE(within(out, want, bound));
  EXPECT_TRUE(out.outside_untouched());
}

TEST(Glu, EveryKindTypeAndLayout) {
  for (const Backend& b : backends()) {
    SCOPED_TRACE(b.name);
    Rng rng = test_rng();
    for (const Glu kind : kKinds) {
      for (int repeat = 0; repeat < 12; ++repeat) {
        SCOPED_TRACE(::testing::Message() << "kind " << static_cast<int>(kind) << ' ' << seed_note());
        const int64_t tokens = rng.integer(1, 9), n = rng.pick({1, 2, 7, 8, 15, 16, 17, 64, 100, 769, 5000});
        const int32_t type = rng.pick({FOVEA_F32, FOVEA_F16, FOVEA_BF16});
        TensorBox gate(type, {tokens, n}, random_layout(rng, 2));
        TensorBox up(rng.pick({FOVEA_F32, FOVEA_F16, FOVEA_BF16}), {tokens, n}, random_layout(rng, 2));
        TensorBox out(rng.pick({FOVEA_F32, FOVEA_F16, FOVEA_BF16}), {tokens, n}, random_layout(rng, 2));
        gate.fill([&](int64_t) { return rng.normal() * 4; });
        up.fill([&](int64_t) { return rng.normal() * 4; });
        check(b.context, params_of(kind), gate, up, out);
      }
    }
  }
}

// G16: every f16 and bf16 value as the gate, and f32 values close together.
TEST(Glu, ErrorInUnitsOfTheLastPlaceOverAllGates) {
  for (const Backend& b : backends()) {
    SCOPED_TRACE(b.name);
    for (const Glu kind : kKinds) {
      SCOPED_TRACE(static_cast<int>(kind));
      for (const int32_t type : {FOVEA_F16, FOVEA_BF16}) {
        TensorBox gate(type, {256, 256}), up(FOVEA_F32, {256, 256}), out(FOVEA_F32, {256, 256});
        for (int64_t i = 0; i < 65536; ++i) {
          const auto bits = static_cast<uint16_t>(i);
          std::memcpy(gate.at(i), &bits, 2);
        }
        up.fill([](int64_t) { return 1.0; });
        check(b.context, params_of(kind), gate, up, out);
      }
      TensorBox gate(FOVEA_F32, {100, 1000}), up(FOVEA_F32, {100, 1000}), out(FOVEA_F32, {100, 1000});
      gate.fill([](int64_t i) { return (static_cast<double>(i) - 50000) * 0.00207; });
      up.fill([](int64_t i) { return i % 2 ? 1.0 : -0.37; });
      check(b.context, params_of(kind), gate, up, out);
    }
  }
}

TEST(Glu, LimitsAndNaN) {
  for (const Backend& b : backends()) {
    for (const Glu kind : kKinds) {
      SCOPED_TRACE(static_cast<int>(kind));
      const std::vector<double> gates = {-HUGE_VAL, -3e38, -1e30, -174, -173,     -104, -18.7,
                                         -18,       0.0,   1e-40, 3e38, HUGE_VAL, NAN};
      const auto n = static_cast<int64_t>(gates.size());
      TensorBox gate = floats(gates, FOVEA_F32, {1, n}), up(FOVEA_F32, {1, n}), out(FOVEA_F32, {1, n});
      up.fill([](int64_t) { return 1.0; });
      check(b.context, params_of(kind), gate, up, out);
      // NaN in up reaches its element alone.
      up.set(8, NAN);
      check(b.context, params_of(kind), gate, up, out);
    }
  }
}

TEST(Glu, ClampedSwigluTakesAlphaAndLimit) {
  Rng rng = test_rng();
  for (const auto& [alpha, limit] :
       {std::pair{1.702f, 7.0f}, {0.0f, 2.0f}, {-3.0f, 0.0f}, {1.0f, HUGE_VALF}, {40.0f, 1e30f}}) {
    TensorBox gate(FOVEA_F32, {3, 50}), up(FOVEA_F32, {3, 50}), out(FOVEA_F32, {3, 50});
    gate.fill([&](int64_t) { return rng.normal() * 10; });
    up.fill([&](int64_t) { return rng.normal() * 10; });
    GluParams p = params_of(Glu::clamped_swiglu);
    p.alpha = alpha;
    p.limit = limit;
    check(backends()[0].context, p, gate, up, out);
  }
}

// D16: gate and up interleaved in one tensor, transposed, reversed and repeated.
TEST(Glu, AnyStrides) {
  for (const Backend& b : backends()) {
    Rng rng = test_rng();
    for (const int32_t type : kFloats) {
      TensorBox both(type, {5, 2 * 133});
      both.fill([&](int64_t) { return rng.normal() * 3; });
      fovea_tensor gate = both, up = both;
      gate.shape[1] = up.shape[1] = 133;
      gate.stride[1] = up.stride[1] = 2;
      up.data = both.at(1);
      TensorBox out(FOVEA_F32, {5, 133});
      ASSERT_TRUE(run(b.context, GluParams{.gate = gate, .up = up, .out = out}));
      const std::vector<double> g = values_of(gate), u = values_of(up);
      for (size_t i = 0; i < g.size(); ++i) {
        const double want = glu64(Glu::silu, g[i], u[i]);
        ASSERT_NEAR(out.get(static_cast<int64_t>(i)), want, bound_of(want, FOVEA_F32));
      }
      TensorBox turned(type, {40, 21}, {.order = {1, 0}}), mirrored(type, {40, 21}, {.reversed = 3});
      TensorBox repeated(type, {40, 21}, {.broadcast = 2}), turned_out(type, {40, 21}, {.reversed = 1});
      for (const TensorBox* t : {&turned, &mirrored, &repeated}) t->fill([&](int64_t) { return rng.normal(); });
      check(b.context, params_of(Glu::gelu_erf), turned, mirrored, turned_out);
      TensorBox out2(type, {40, 21});
      check(b.context, params_of(Glu::gelu_tanh), repeated, turned, out2);
    }
  }
}

TEST(Glu, OutMayBeGateOrUp) {
  Rng rng = test_rng();
  for (const bool over_gate : {true, false}) {
    TensorBox gate(FOVEA_BF16, {3, 77}), up(FOVEA_BF16, {3, 77}), apart(FOVEA_BF16, {3, 77});
    gate.fill([&](int64_t) { return rng.normal(); });
    up.fill([&](int64_t) { return rng.normal(); });
    check(backends()[0].context, params_of(Glu::silu), gate, up, apart);
    TensorBox& over = over_gate ? gate : up;
    ASSERT_TRUE(run(backends()[0].context, GluParams{.gate = gate, .up = up, .out = over}));
    EXPECT_EQ(over.bits(), apart.bits());
  }
}

TEST(Glu, EmptySizes) {
  const fovea::Context& context = backends()[0].context;
  TensorBox none(FOVEA_F32, {0, 8}), narrow(FOVEA_F32, {8, 0});
  EXPECT_TRUE(run(context, GluParams{.gate = none, .up = none, .out = none}));
  EXPECT_TRUE(run(context, GluParams{.gate = narrow, .up = narrow, .out = narrow}));
}

TEST(Glu, ErrorsNameTheArgument) {
  TensorBox t(FOVEA_F32, {2, 8}), out(FOVEA_F32, {2, 8});
  const auto message = [&](auto&& change) {
    GluParams p{.gate = t, .up = t, .out = out};
    change(p);
    const Result result = run(backends()[0].context, p);
    EXPECT_EQ(result.code, FOVEA_INVALID_VALUE);
    EXPECT_TRUE(out.memory().all(kPoison));
    return result.message;
  };
  const std::string only = ": only the clamped swiglu has it: leave the default";
  EXPECT_EQ(message([](auto& p) { p.alpha = 1; }), "alpha is 1" + only);
  EXPECT_EQ(message([](auto& p) { p.limit = 1; }), "limit is 1" + only);
  EXPECT_EQ(message([](auto& p) { p.kind = 4; }).substr(0, 9), "kind is 4");
  EXPECT_EQ(message([](auto& p) { p.kind = 3, p.alpha = NAN; }), "alpha is nan: must be finite");
  EXPECT_EQ(message([](auto& p) { p.kind = 3, p.limit = -1; }), "limit is -1: must not be negative");
  EXPECT_EQ(message([](auto& p) { p.up.shape[1] = 7; }), "up.shape is [2, 7]: must be [2, 8] (gate)");
  EXPECT_EQ(message([](auto& p) { p.out.stride[1] = 2; }), "out.stride[1] is 2: must be 1");
}

}  // namespace
