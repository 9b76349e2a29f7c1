// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "fovea/fovea.hpp"
#include "oracle/numbers.h"
#include "oracle/rope64.h"
#include "support/backends.h"
#include "support/check.h"
#include "support/tensors.h"

namespace {

using namespace fovea::test;
using fovea::Result;
using fovea::RopeConfig;
using fovea::RopeParams;
using fovea::oracle::rope_head;
using fovea::oracle::ulp;

constexpr int32_t kFloats[] = {FOVEA_F32, FOVEA_F16, FOVEA_BF16};

// Longrope factors that begin with `first`.
const float* factors(float first) {
  static std::map<float, std::vector<float>> lists;
  std::vector<float>& list = lists[first];
  for (int i = static_cast<int>(list.size()); i < 288; ++i) list.push_back(first + 0.13f * static_cast<float>(i));
  return list.data();
}

RopeConfig scaled(int32_t scaling) {
  RopeConfig c{.scaling = scaling};
  if (scaling != FOVEA_ROPE_SCALING_NONE) c.factor = 4;
  if (scaling >= FOVEA_ROPE_SCALING_YARN) c.original_max_position = 4096;
  if (scaling == FOVEA_ROPE_SCALING_LONGROPE) {
    c.max_position = 16384;
    c.short_factor = factors(1);
    c.long_factor = factors(2);
  }
  return c;
}

bool untouched(const TensorBox& t) {
  const std::vector<std::byte> bits = t.bits();
  return std::all_of(bits.begin(), bits.end(), [](std::byte b) { return b == std::byte{kPoison}; });
}

int position_rows(const RopeConfig& c) {
  int rows = 0;
  for (int r = 0; r < 4; ++r) rows = c.mrope_section[r] > 0 ? r + 1 : rows;
  return rows;
}

struct Case {
  RopeConfig config = {};
  int64_t tokens = 3, heads = 2, d = 64;
  int64_t max_position = 5000;
  int32_t x_type = FOVEA_F32, out_type = FOVEA_F32, index_type = FOVEA_I64;
};

// x, out and positions of a case, drawn and laid out by the generator.
struct Problem {
  Problem(const Case& how, Rng& rng) : c(how) {
    x = TensorBox(c.x_type, {c.tokens, c.heads, c.d}, random_layout(rng, 3));
    x.assign(draw(rng, Values::normal, c.tokens * c.heads, c.d));
    out = TensorBox(c.out_type, {c.tokens, c.heads, c.d}, random_layout(rng, 3));
    const int64_t rows = position_rows(c.config);
    std::vector<int64_t> p(static_cast<size_t>(std::max<int64_t>(rows, 1) * c.tokens));
    for (int64_t& v : p) v = rng.integer(0, c.max_position);
    positions = rows ? indices(p, c.index_type, {rows, c.tokens}) : indices(p, c.index_type);
  }
  RopeParams params() const { return {.x = x, .out = out, .positions = positions, .config = &c.config}; }

  void expect_right() const {
    std::vector<double> want, bound;
    const std::vector<double> in = x.values();
    for (int64_t t = 0; t < c.tokens; ++t) {
      for (int64_t h = 0; h < c.heads; ++h) {
        const auto first = in.begin() + (t * c.heads + h) * c.d;
        std::vector<double> loss;
        const std::vector<double> y = rope_head(
            c.config, {first, first + c.d},
            [&](int row) { return static_cast<int64_t>(positions.get(row * c.tokens + t)); }, &loss);
        for (size_t i = 0; i < y.size(); ++i) {
          want.push_back(y[i]);
          bound.push_back(loss[i] + 0.5 * ulp(c.out_type, std::fabs(y[i]) + loss[i]));
        }
      }
    }
    EXPECT_TRUE(within(out, want, bound));
    EXPECT_TRUE(out.outside_untouched());
  }

  Case c;
  TensorBox x, out, positions;
};

void expect_right(const Case& how, uint64_t salt = 0) {
  for (const Backend& backend : backends()) {
    SCOPED_TRACE(backend.name + " " + seed_note());
    Rng rng = test_rng(salt);
    const Problem p(how, rng);
    const Result result = run(backend.context, p.params());
    ASSERT_TRUE(result) << result.message;
    p.expect_right();
  }
}

Result attempt(const Case& how) {
  Rng rng(1);
  const Problem p(how, rng);
  const Result result = run(backends()[0].context, p.params());
  EXPECT_TRUE(result || untouched(p.out)) << "an error wrote something";
  return result;
}

TEST(Rope, EveryStyleScalingAndType) {
  uint64_t salt = 0;
  for (int32_t style : {FOVEA_ROPE_NEOX, FOVEA_ROPE_GPTJ}) {
    for (int32_t scaling = FOVEA_ROPE_SCALING_NONE; scaling <= FOVEA_ROPE_SCALING_LONGROPE; ++scaling) {
      for (int32_t x_type : kFloats) {
        for (int32_t out_type : kFloats) {
          Case c{.config = scaled(scaling), .x_type = x_type, .out_type = out_type};
          c.config.style = style;
          c.d = ++salt % 3 == 0 ? 96 : 80;
          c.config.rotary_dim = salt % 2 ? 0 : 54;
          c.index_type = salt % 2 ? FOVEA_I32 : FOVEA_I64;
          SCOPED_TRACE("style " + std::to_string(style) + " scaling " + std::to_string(scaling));
          expect_right(c, salt);
        }
      }
    }
  }
}

TEST(Rope, I01_RotaryDims2To256EvenAndALargeBatch) {
  for (int32_t style : {FOVEA_ROPE_NEOX, FOVEA_ROPE_GPTJ}) {
    for (int32_t dims = 2; dims <= 256; dims += 2) {
      Case c{.tokens = 1, .d = dims + dims % 3};
      c.config.style = style;
      c.config.rotary_dim = dims;
      SCOPED_TRACE("style " + std::to_string(style) + " dims " + std::to_string(dims));
      expect_right(c);
    }
  }
  Case large{.tokens = static_cast<int64_t>(500 * effort()), .heads = 16, .d = 72, .x_type = FOVEA_BF16};
  large.config.style = FOVEA_ROPE_GPTJ;
  expect_right(large);
}

TEST(Rope, I02_RefusesOddAndTooLargeRotaryDims) {
  Case c;
  c.config.rotary_dim = 33;
  EXPECT_EQ(attempt(c).message, "config.rotary_dim is 33: must be even and in [2, 64] (0 = all dims)");
  c.config.rotary_dim = 66;
  EXPECT_EQ(attempt(c).code, FOVEA_INVALID_VALUE);
  c.config.rotary_dim = -2;
  EXPECT_EQ(attempt(c).code, FOVEA_INVALID_VALUE);
  c.config.rotary_dim = 0;
  c.d = 63;
  EXPECT_EQ(attempt(c).code, FOVEA_INVALID_VALUE);
  c.d = 640;
  EXPECT_EQ(attempt(c).message, "config.rotary_dim is 640: must be even and in [2, 576] (0 = all dims)");
  c.config.rotary_dim = 576;
  EXPECT_TRUE(attempt(c));
}

TEST(Rope, I04_NegativePositionsAreRefusedBeforeAnythingIsWritten) {
  for (int32_t index_type : {FOVEA_I32, FOVEA_I64}) {
    Rng rng(2);
    const Problem p(Case{.tokens = 5, .index_type = index_type}, rng);
    p.positions.set(4, -1);
    EXPECT_EQ(run(backends()[0].context, p.params()).message, "positions[4] is -1: must be in [0, 2147483648)");
    EXPECT_TRUE(untouched(p.out));
  }
  Case m{.tokens = 5};
  std::copy_n(std::begin({8, 12, 12}), 3, m.config.mrope_section);
  Rng rng(2);
  const Problem p(m, rng);
  p.positions.set(2 * 5 + 3, -7);
  EXPECT_EQ(run(backends()[0].context, p.params()).message, "positions[2][3] is -7: must be in [0, 2147483648)");
}

TEST(Rope, I06_PositionsToAMillionAndBeyond) {
  for (int32_t style : {FOVEA_ROPE_NEOX, FOVEA_ROPE_GPTJ}) {
    for (int64_t position : {int64_t{1} << 20, int64_t{1000003}, (int64_t{1} << 31) - 1}) {
      Case c{.tokens = 1, .max_position = position};
      c.config.style = style;
      for (const Backend& backend : backends()) {
        Rng rng = test_rng();
        const Problem p(c, rng);
        p.positions.set(0, static_cast<double>(position));
        ASSERT_TRUE(run(backend.context, p.params()));
        p.expect_right();
      }
    }
  }
  Rng rng(3);
  const Problem p(Case{.tokens = 1}, rng);
  p.positions.set(0, 0x1p31);
  EXPECT_EQ(run(backends()[0].context, p.params()).message, "positions[0] is 2147483648: must be in [0, 2147483648)");
}

TEST(Rope, I07_TheTailIsBitIdentical) {
  for (int32_t type : kFloats) {
    for (bool in_place : {false, true}) {
      for (const Backend& backend : backends()) {
        Rng rng = test_rng();
        Case c{.d = 77, .x_type = type, .out_type = type};
        c.config.rotary_dim = 20;
        Problem p(c, rng);
        // Signalling NaNs and negative zeros: arithmetic would change them.
        const size_t bytes = static_cast<size_t>(fovea_dtype_bytes(type, 1));
        for (int64_t i = 0; i < p.x.size(); ++i) {
          const uint32_t odd = type == FOVEA_F32 ? 0x7F812345u : type == FOVEA_F16 ? 0x7C01u : 0x7F81u;
          if (i % 77 >= 20) std::memcpy(p.x.at(i), &odd, bytes);
        }
        const std::vector<std::byte> before = p.x.bits();
        RopeParams params = p.params();
        if (in_place) params.out = p.x;
        ASSERT_TRUE(run(backend.context, params));
        const std::vector<std::byte> after = in_place ? p.x.bits() : p.out.bits();
        for (size_t i = 0; i < after.size(); ++i) {
          ASSERT_TRUE(i / bytes % 77 < 20 || after[i] == before[i]) << "byte " << i;
        }
      }
    }
  }
}

TEST(Rope, MRopeSectionsContiguousAndInterleaved) {
  const struct {
    int32_t sections[4];
    int32_t interleaved;
  } forms[] = {{{16, 24, 24, 0}, 0},  {{24, 20, 20, 0}, 1}, {{28, 20, 16, 0}, 1}, {{16, 16, 16, 16}, 0},
               {{16, 16, 16, 16}, 1}, {{0, 40, 24, 0}, 0},  {{64, 0, 0, 0}, 0}};
  for (const auto& form : forms) {
    for (int32_t style : {FOVEA_ROPE_NEOX, FOVEA_ROPE_GPTJ}) {
      Case c{.tokens = 4, .d = 128};
      c.config.style = style;
      std::copy_n(form.sections, 4, c.config.mrope_section);
      c.config.mrope_interleaved = form.interleaved;
      SCOPED_TRACE("sections " + std::to_string(form.sections[0]) + " interleaved " + std::to_string(form.interleaved));
      expect_right(c);
    }
  }
}

TEST(Rope, MRopeWithEqualRowsIsPlainRope) {
  Rng rng = test_rng();
  Case c{.tokens = 4, .d = 128};
  const Problem plain(c, rng);
  ASSERT_TRUE(run(backends()[0].context, plain.params()));
  std::vector<int64_t> p;
  for (int r = 0; r < 3; ++r) {
    for (int64_t t = 0; t < 4; ++t) p.push_back(static_cast<int64_t>(plain.positions.get(t)));
  }
  const TensorBox positions = indices(p, FOVEA_I64, {3, 4});
  for (int32_t interleaved : {0, 1}) {
    std::copy_n(std::begin({24, 20, 20}), 3, c.config.mrope_section);
    c.config.mrope_interleaved = interleaved;
    const TensorBox out(FOVEA_F32, {4, 2, 128});
    const RopeParams params{.x = plain.x, .out = out, .positions = positions, .config = &c.config};
    ASSERT_TRUE(run(backends()[0].context, params));
    EXPECT_EQ(out.bits(), plain.out.bits());
  }
}

TEST(Rope, MRopeSectionsThatDoNotFitAreRefused) {
  Case c{.d = 128};
  std::copy_n(std::begin({16, 24, 20}), 3, c.config.mrope_section);
  EXPECT_EQ(attempt(c).message, "the sum of config.mrope_section is 60: must be 64 (rotary_dim / 2)");
  std::copy_n(std::begin({10, 30, 24}), 3, c.config.mrope_section);
  EXPECT_TRUE(attempt(c));
  c.config.mrope_interleaved = 1;
  EXPECT_EQ(attempt(c).message, "config.mrope_section[1] is 30: interleaved, this row has 21 pairs");
  c.config.mrope_section[0] = -10;
  EXPECT_EQ(attempt(c).message, "config.mrope_section[0] is -10: must not be negative");
  Case lone;
  lone.config.mrope_interleaved = 1;
  EXPECT_EQ(attempt(lone).message, "config.mrope_interleaved is 1: needs mrope_section");
  Case rows{.d = 128};
  std::copy_n(std::begin({16, 24, 24}), 3, rows.config.mrope_section);
  Rng rng(4);
  const Problem p(rows, rng);
  RopeParams params = p.params();
  params.positions = slice(params.positions, 0, 0, 2);
  EXPECT_EQ(run(backends()[0].context, params).message, "positions.shape[0] is 2: must be 3 (rows of mrope_section)");
}

// Tables of the plain angles, so that the result must be that of the plain configuration up to the rounding of cos.
struct Tables {
  Tables(int64_t positions, int64_t pairs, double theta = 10000)
      : cos(FOVEA_F32, {positions, pairs}, {.pad = {0, 3}}), sin(FOVEA_F32, {positions, pairs}, {.pad = {0, 5}}) {
    const auto angle = [&](int64_t i) {
      return static_cast<double>(i / pairs) *
             std::pow(theta, -static_cast<double>(i % pairs) / static_cast<double>(pairs));
    };
    cos.fill([&](int64_t i) { return std::cos(angle(i)); });
    sin.fill([&](int64_t i) { return std::sin(angle(i)); });
  }
  TensorBox cos, sin;
};

TEST(Rope, GivenTablesReplaceTheAngles) {
  const Tables tables(40, 32);
  for (int32_t style : {FOVEA_ROPE_NEOX, FOVEA_ROPE_GPTJ}) {
    for (const Backend& backend : backends()) {
      Rng rng = test_rng();
      Case c{.tokens = 6, .max_position = 39};
      c.config.style = style;
      Problem p(c, rng);
      p.c.config.cos = tables.cos;
      p.c.config.sin = tables.sin;
      ASSERT_TRUE(run(backend.context, p.params()));
      p.expect_right();
    }
  }
}

TEST(Rope, GivenTablesBoundThePositionsAndOtherRowsAreNotRead) {
  const Tables tables(40, 32);
  Rng rng(5);
  Case c{.tokens = 3};
  Problem p(c, rng);
  p.c.config.cos = tables.cos;
  p.c.config.sin = tables.sin;
  for (int64_t t = 0; t < 3; ++t) p.positions.set(t, static_cast<double>(10 + t));
  ASSERT_TRUE(run(backends()[0].context, p.params()));
  const std::vector<std::byte> clean = p.out.bits();
  for (int64_t i = 0; i < tables.cos.size(); ++i) {
    if (i / 32 < 10 || i / 32 > 12) tables.cos.set(i, NAN), tables.sin.set(i, NAN);
  }
  ASSERT_TRUE(run(backends()[0].context, p.params()));
  EXPECT_EQ(p.out.bits(), clean);
  p.positions.set(1, 40);
  EXPECT_EQ(run(backends()[0].context, p.params()).message,
            "positions[1] is 40: must be in [0, 40) (rows of config.cos)");
  EXPECT_EQ(p.out.bits(), clean);
  RopeConfig& config = p.c.config;
  p.positions.set(1, 0);
  config.theta = 5e5;
  EXPECT_EQ(run(backends()[0].context, p.params()).message, "config.theta is 500000: given tables replace it");
  config.theta = 1e4;
  config.sin = slice(config.sin, 0, 0, 39);
  EXPECT_EQ(run(backends()[0].context, p.params()).message,
            "config.sin.shape is [39, 32]: must be [40, 32] (config.cos)");
  config.sin = {};
  EXPECT_EQ(run(backends()[0].context, p.params()).code, FOVEA_INVALID_TYPE);
}

// Each option either changes the result of its scaling or is refused.
TEST(Rope, EveryOptionActsOrIsRefused) {
  using Change = void (*)(RopeConfig&);
  const std::pair<const char*, Change> changes[] = {
      {"theta", [](RopeConfig& c) { c.theta = 5e5; }},
      {"factor", [](RopeConfig& c) { c.factor = 6; }},
      {"original_max_position", [](RopeConfig& c) { c.original_max_position = 1000; }},
      {"low_freq_factor", [](RopeConfig& c) { c.low_freq_factor = 2; }},
      {"high_freq_factor", [](RopeConfig& c) { c.high_freq_factor = 9; }},
      {"beta_fast", [](RopeConfig& c) { c.beta_fast = 20; }},
      {"beta_slow", [](RopeConfig& c) { c.beta_slow = 3; }},
      {"yarn_truncate", [](RopeConfig& c) { c.yarn_truncate = 0; }},
      {"attention_factor", [](RopeConfig& c) { c.attention_factor = 1.25, c.factor = c.scaling == 5 ? 1 : c.factor; }},
      {"max_position", [](RopeConfig& c) { c.max_position = 400; }},
      {"short_factor", [](RopeConfig& c) { c.short_factor = factors(3), c.max_position = c.scaling == 5 ? 9 : 0; }},
      {"long_factor", [](RopeConfig& c) { c.long_factor = factors(1); }},
      {"rotary_dim", [](RopeConfig& c) { c.rotary_dim = 40; }},
      {"style", [](RopeConfig& c) { c.style = FOVEA_ROPE_GPTJ; }},
  };
  for (int32_t scaling = FOVEA_ROPE_SCALING_NONE; scaling <= FOVEA_ROPE_SCALING_LONGROPE; ++scaling) {
    Case c{.config = scaled(scaling)};
    Rng rng(6);
    Problem p(c, rng);
    ASSERT_TRUE(run(backends()[0].context, p.params()));
    const std::vector<std::byte> before = p.out.bits();
    for (const auto& [name, change] : changes) {
      p.c.config = c.config;
      change(p.c.config);
      const Result result = run(backends()[0].context, p.params());
      SCOPED_TRACE(std::string(name) + " with scaling " + std::to_string(scaling) + ": " + result.message);
      if (!result) {
        EXPECT_NE(result.message.find(name), std::string::npos);
      } else {
        EXPECT_NE(p.out.bits(), before) << "accepted without effect";
        p.expect_right();
      }
    }
  }
}

TEST(Rope, RefusesValuesOutsideAFormula) {
  const auto message = [](int32_t scaling, void (*change)(RopeConfig&)) {
    Case c{.config = scaled(scaling)};
    change(c.config);
    return attempt(c).message;
  };
  EXPECT_EQ(message(0, [](RopeConfig& c) { c.theta = 0.5; }), "config.theta is 0.5: must be finite and at least 1");
  EXPECT_EQ(message(0, [](RopeConfig& c) { c.theta = NAN; }), "config.theta is nan: must be finite and at least 1");
  EXPECT_EQ(message(0, [](RopeConfig& c) { c.scaling = 9; }),
            "config.scaling is 9: must be one of enum fovea_rope_scaling");
  EXPECT_EQ(message(0, [](RopeConfig& c) { c.style = 2; }),
            "config.style is 2: must be FOVEA_ROPE_NEOX or FOVEA_ROPE_GPTJ");
  EXPECT_EQ(message(1, [](RopeConfig& c) { c.factor = 0; }), "config.factor is 0: must be finite and positive");
  EXPECT_EQ(message(1, [](RopeConfig& c) { c.factor = 1e-30; }),
            "frequency of pair 0 is 1e+30: must be at most 65536 radians per position");
  EXPECT_EQ(message(2, [](RopeConfig& c) { c.rotary_dim = 2; }),
            "config.rotary_dim is 2: ntk needs more than one pair");
  EXPECT_EQ(message(3, [](RopeConfig& c) { c.factor = 0.5; }), "config.factor is 0.5: must be finite and at least 1");
  EXPECT_EQ(message(3, [](RopeConfig& c) { c.beta_fast = 1; }),
            "config.beta_fast is 1: must be finite and above beta_slow, which is 1 and must be positive");
  EXPECT_EQ(message(4, [](RopeConfig& c) { c.original_max_position = 0; }),
            "config.original_max_position is 0: must be at least 2 for this scaling");
  EXPECT_EQ(message(4, [](RopeConfig& c) { c.high_freq_factor = 1; }),
            "config.high_freq_factor is 1: must be finite and above low_freq_factor, which is 1 and must be positive");
  EXPECT_EQ(message(5, [](RopeConfig& c) { c.long_factor = nullptr; }),
            "config.long_factor is null: longrope needs its factors");
  EXPECT_EQ(message(5, [](RopeConfig& c) { c.attention_factor = 2; }),
            "config.factor is 4: has no effect where attention_factor is given");
  EXPECT_EQ(message(5, [](RopeConfig& c) { c.max_position = 0; }),
            "config.max_position is 0: longrope needs it to choose its factors");
}

TEST(Rope, RefusesTensorsThatDoNotFit) {
  Rng rng(7);
  const Problem p(Case{}, rng);
  const auto message = [&](const RopeParams& params) { return run(backends()[0].context, params).message; };
  RopeParams params = p.params();
  params.config = nullptr;
  EXPECT_EQ(message(params), "config is null: must point to its struct");
  params = p.params();
  params.x = {};
  EXPECT_EQ(message(params), "x is absent: must be one of f32, f16, bf16");
  params = p.params();
  params.out.shape[2] = 60;
  EXPECT_EQ(message(params), "out.shape is [3, 2, 60]: must be [3, 2, 64] (x)");
  params = p.params();
  params.out.stride[1] = 0;
  EXPECT_EQ(message(params), "out.stride[1] is 0: an output must not repeat elements");
  params = p.params();
  params.positions.shape[0] = 2;
  EXPECT_EQ(message(params), "positions.shape[0] is 2: must be 3 (tokens)");
  params = p.params();
  params.positions.dtype = FOVEA_U32;
  EXPECT_EQ(message(params), "positions is u32: must be one of i32, i64");
  params = p.params();
  params.positions.data = nullptr;
  EXPECT_EQ(message(params), "positions.data is null: a call needs its memory");
  params = p.params();
  params.out = params.x;
  params.out.stride[0] *= 2;
  EXPECT_EQ(message(params), "out is x in another type or with other strides: in place it must be x itself");
  EXPECT_TRUE(untouched(p.out));
}

TEST(Rope, BitsDoNotDependOnLayoutThreadsInstructionSetOrPlace) {
  for (int32_t style : {FOVEA_ROPE_NEOX, FOVEA_ROPE_GPTJ}) {
    Case c{.tokens = 300, .heads = 3, .d = 70, .x_type = FOVEA_BF16, .out_type = FOVEA_BF16};
    c.config = scaled(FOVEA_ROPE_SCALING_YARN);
    c.config.style = style;
    std::vector<std::byte> want;
    for (int32_t threads : {1, 2, 5}) {
      for (const Backend& backend : backends()) {
        const std::string isa = backend.context.info().isa;
        const fovea::Context context = cpu_context(threads, isa.c_str());
        Rng rng = test_rng();
        const Problem p(c, rng);
        Rng other = test_rng(static_cast<uint64_t>(threads));
        const TensorBox x(FOVEA_BF16, {300, 3, 70}, random_layout(other, 3));
        x.assign(p.x.values());
        ASSERT_TRUE(run(context, RopeParams{.x = x, .out = p.out, .positions = p.positions, .config = &p.c.config}));
        if (want.empty()) want = p.out.bits();
        EXPECT_EQ(p.out.bits(), want) << backend.name << ", " << threads << " threads";
        ASSERT_TRUE(run(context, RopeParams{.x = x, .out = x, .positions = p.positions, .config = &p.c.config}));
        EXPECT_EQ(x.bits(), want) << "in place";
        EXPECT_TRUE(x.outside_untouched());
      }
    }
  }
}

TEST(Rope, RepeatedHeadsAreReadThroughStrideZero) {
  Rng rng = test_rng();
  const TensorBox x(FOVEA_F16, {2, 3, 16}, {.broadcast = 2});
  x.fill([&](int64_t) { return rng.normal(); });
  const TensorBox out(FOVEA_F16, {2, 3, 16});
  const RopeConfig config;
  ASSERT_TRUE(
      run(backends()[0].context, RopeParams{.x = x, .out = out, .positions = indices({5, 9}), .config = &config}));
  const std::vector<double> y = out.values();
  for (int64_t i = 0; i < out.size(); ++i) EXPECT_EQ(y[i], y[i / 48 * 48 + i % 16]);
}

TEST(Rope, OffsetsPastTwoToThe31Elements) {
  const int64_t stride = (int64_t{1} << 31) + 64;
  const Sparse memory(static_cast<size_t>(2 * (stride + 64)));
  fovea_tensor x = fovea::tensor(memory.data(), FOVEA_F16, {2, 1, 64}, {stride, 64, 1});
  const std::vector<double> values = [] {
    Rng rng = test_rng();
    return draw(rng, Values::normal, 2, 64);
  }();
  for (int64_t i = 0; i < 128; ++i) fovea::oracle::encode(FOVEA_F16, element(x, i), values[i]);
  const TensorBox small(FOVEA_F16, {2, 1, 64}), out(FOVEA_F16, {2, 1, 64});
  small.assign(values);
  const RopeConfig config;
  const TensorBox positions = indices({100, 200});
  ASSERT_TRUE(
      run(backends()[0].context, RopeParams{.x = small, .out = out, .positions = positions, .config = &config}));
  ASSERT_TRUE(run(backends()[0].context, RopeParams{.x = x, .out = x, .positions = positions, .config = &config}));
  EXPECT_EQ(values_of(x), out.values());
}

TEST(Rope, NothingToDoIsFine) {
  for (const auto& [tokens, heads] : {std::pair<int64_t, int64_t>{0, 2}, {3, 0}}) {
    Case c{.tokens = tokens, .heads = heads};
    const Result result = attempt(c);
    EXPECT_TRUE(result) << result.message;
  }
}

TEST(Rope, APlanServesFewerTokensAndNothingElse) {
  const fovea::Context& context = backends()[0].context;
  Rng rng = test_rng();
  Problem p(Case{.config = scaled(FOVEA_ROPE_SCALING_YARN), .tokens = 4}, rng);
  const auto plan = context.plan(p.params());
  EXPECT_EQ(
      plan.explain(),
      "rope: cpu_tokens, NeoX over 64 dims, angles in f64, scaling yarn; one task per block of tokens, cos and sin "
      "once per token, up to 4 tokens of 2 x 64");
  plan.run(p.params());
  p.expect_right();
  RopeParams fewer = p.params();
  fewer.x = slice(fewer.x, 0, 0, 3);
  fewer.out = slice(fewer.out, 0, 0, 3);
  fewer.positions = slice(fewer.positions, 0, 0, 3);
  EXPECT_TRUE(plan.try_run(fewer));
  const auto small = context.plan(fewer);
  EXPECT_EQ(small.try_run(p.params()).message, "x.shape[0] is 4: the plan was made for at most 3");
  RopeConfig other = p.c.config;
  other.factor = 8;
  RopeParams params = p.params();
  params.config = &other;
  EXPECT_EQ(plan.try_run(params).message, "config: differs from the one the plan was made for");
}

}  // namespace
