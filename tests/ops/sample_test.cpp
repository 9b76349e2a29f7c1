// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "fovea/fovea.hpp"
#include "oracle/sample64.h"
#include "shared/philox.h"
#include "support/backends.h"
#include "support/check.h"
#include "support/tensors.h"

namespace {

using namespace fovea::test;
using fovea::Context;
using fovea::Result;
using fovea::SampleParams;
using fovea::oracle::probabilities64;
using fovea::oracle::Rule;
using fovea::oracle::uniform64;

const double kNaN = std::nan("");

// Tokens of rows of logits under one rule; row r stands at position `position` + r.
std::vector<int64_t> draw(const Context& context, const TensorBox& logits, const Rule& rule, uint64_t seed,
                          int64_t position) {
  const int64_t rows = logits.view().shape[0];
  std::vector<int64_t> positions(static_cast<size_t>(rows));
  std::iota(positions.begin(), positions.end(), position);
  const TensorBox position_box = indices(positions, FOVEA_I64);
  TensorBox tokens(FOVEA_I32, {rows});
  const Result result = run(context, SampleParams{.top_k = static_cast<int32_t>(rule.top_k),
                                                  .temperature = static_cast<float>(rule.temperature),
                                                  .top_p = static_cast<float>(rule.top_p),
                                                  .min_p = static_cast<float>(rule.min_p),
                                                  .seed = seed,
                                                  .logits = logits,
                                                  .tokens = tokens,
                                                  .positions = position_box});
  EXPECT_TRUE(result) << result.message;
  std::vector<int64_t> drawn;
  for (int64_t r = 0; r < rows; ++r) drawn.push_back(static_cast<int64_t>(tokens.get(r)));
  return drawn;
}

// `row` in many rows of one memory: stride 0.
TensorBox repeated(const std::vector<double>& row, int64_t rows, int32_t dtype = FOVEA_F32) {
  TensorBox logits(dtype, {rows, static_cast<int64_t>(row.size())}, {.broadcast = 1});
  for (size_t i = 0; i < row.size(); ++i) logits.set(static_cast<int64_t>(i), row[i]);
  return logits;
}

// Is `token` the one whose interval of the cumulated probabilities holds `uniform`? f32 weights move the ends by less
// than 1e-6.
bool holds(const std::vector<double>& p, int64_t token, double uniform) {
  if (token < 0 || token >= static_cast<int64_t>(p.size()) || p[static_cast<size_t>(token)] == 0) return false;
  const double end = std::accumulate(p.begin(), p.begin() + token + 1, 0.0);
  return end - p[static_cast<size_t>(token)] - 1e-6 <= uniform && uniform < end + 1e-6;
}

// The same for a rule whose cuts may lie exactly between tokens.
::testing::AssertionResult right_token(const std::vector<double>& logits, const Rule& rule, int64_t token, double u) {
  for (const double nudge : {1.0, 1 - 1e-6, 1 + 1e-6}) {
    for (const double nudge_min : {1.0, 1 - 1e-6, 1 + 1e-6}) {
      Rule r = rule;
      r.top_p = rule.top_p < 1 ? std::min(1.0, rule.top_p * nudge) : 1;
      r.min_p = std::min(1.0, rule.min_p * nudge_min);
      if (holds(probabilities64(logits, r), token, u)) return ::testing::AssertionSuccess();
    }
  }
  return ::testing::AssertionFailure() << "token " << token << " for uniform " << u << ", temperature "
                                       << rule.temperature << " top_k " << rule.top_k << " top_p " << rule.top_p
                                       << " min_p " << rule.min_p << " vocab " << logits.size();
}

// A position whose draw is in [low, 1): it takes the last token that is kept, by id, where all weigh alike.
int64_t late_position(uint64_t seed, double low) {
  for (int64_t position = 0;; ++position) {
    if (uniform64(seed, static_cast<uint64_t>(position)) >= low) return position;
  }
}

TEST(Philox, KnownAnswers) {  // of the authors' Random123 distribution
  struct Row {
    fovea::PhiloxBlock counter;
    uint32_t key[2];
    uint32_t want[4];
  };
  const Row rows[] = {
      {{{0, 0, 0, 0}}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{{~0u, ~0u, ~0u, ~0u}}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (const Row& row : rows) {
    const fovea::PhiloxBlock got = fovea::philox4x32(row.counter, row.key[0], row.key[1]);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(got.words[i], row.want[i]);
  }
}

TEST(Philox, UniformIsTheFirstWordOfSeedAndPosition) {
  Rng rng = test_rng();
  for (int i = 0; i < 1000; ++i) {
    const uint64_t seed = rng.bits(), position = rng.bits() >> 1;
    EXPECT_EQ(fovea::philox_uniform(seed, position), uniform64(seed, position));
  }
}

TEST(Sample, EveryRuleDrawsTheTokenOfItsUniform) {
  for (const Backend& b : backends()) {
    SCOPED_TRACE(b.name);
    Rng rng = test_rng();
    for (int repeat = 0; repeat < 150; ++repeat) {
      SCOPED_TRACE(seed_note());
      const int64_t vocab = rng.pick({1, 2, 3, 5, 17, 64, 100, 500, 1023, 1024, 1025, 5000}), rows = rng.integer(1, 5);
      TensorBox logits(rng.pick({FOVEA_F32, FOVEA_F16, FOVEA_BF16}), {rows, vocab}, random_layout(rng, 2));
      const double spread = rng.pick({0.0, 0.3, 3.0, 20.0});
      logits.fill([&](int64_t) {
        return rng.chance(0.1) ? rng.pick({-HUGE_VAL, kNaN, 1.0, 0.0, -0.0}) : rng.normal() * spread;
      });
      for (int64_t r = 0; r < rows; ++r) logits.set(r * vocab + rng.integer(0, vocab - 1), 1.5);
      const auto as_float = [](double x) { return static_cast<double>(static_cast<float>(x)); };
      const Rule rule{.temperature = as_float(rng.pick({0.1, 0.7, 1.0, 3.0})),
                      .top_k = rng.pick({int64_t{0}, int64_t{1}, int64_t{2}, rng.integer(1, vocab), int64_t{40}}),
                      .top_p = as_float(rng.pick({1.0, 1.0, 0.0, 0.5, 0.9, rng.uniform()})),
                      .min_p = as_float(rng.pick({0.0, 0.0, 0.05, 1.0, rng.uniform()}))};
      const uint64_t seed = rng.bits();
      const int64_t position = rng.integer(0, 1 << 20);
      const std::vector<int64_t> tokens = draw(b.context, logits, rule, seed, position);
      for (int64_t r = 0; r < rows; ++r) {
        std::vector<double> row;
        for (int64_t i = 0; i < vocab; ++i) row.push_back(logits.get(r * vocab + i));
        EXPECT_TRUE(right_token(row, rule, tokens[static_cast<size_t>(r)],
                                uniform64(seed, static_cast<uint64_t>(position + r))));
      }
    }
  }
}

// Chi-square of 20000 draws against the probabilities: 1.0 is expected, 1.6 is far beyond any chance at 30 tokens.
TEST(Sample, DrawsHaveTheDistribution) {
  Rng rng = test_rng(1);
  std::vector<double> row;
  for (int i = 0; i < 60; ++i) row.push_back(rng.normal());
  constexpr int64_t kDraws = 20000;
  const TensorBox logits = repeated(row, kDraws);
  for (const Rule& rule :
       {Rule{}, Rule{.temperature = 0.5}, Rule{.temperature = 2}, Rule{.top_k = 10}, Rule{.top_p = 0.8},
        Rule{.min_p = 0.125}, Rule{.top_k = 30, .top_p = 0.75, .min_p = 0.0625}}) {
    for (const uint64_t seed : {1, 2}) {
      std::vector<double> count(row.size(), 0);
      for (const int64_t token : draw(backends()[0].context, logits, rule, seed, 0))
        ++count[static_cast<size_t>(token)];
      const std::vector<double> p = probabilities64(row, rule);
      double chi = 0, kinds = -1;
      for (size_t i = 0; i < p.size(); ++i) {
        if (p[i] == 0) {
          EXPECT_EQ(count[i], 0) << "token " << i << " is filtered out";
          continue;
        }
        const double want = p[i] * static_cast<double>(kDraws);
        chi += (count[i] - want) * (count[i] - want) / want;
        ++kinds;
      }
      EXPECT_LT(chi / kinds, 1 + 4 * std::sqrt(2 / kinds)) << "top_k " << rule.top_k << " seed " << seed;
    }
  }
}

// Many tokens of 10^-4 of the best one's weight, and some of 10^-30, together a quarter of the mass.
TEST(Sample, UnlikelyTokensAreDrawnToo) {
  std::vector<double> row(3500, std::log(1e-4));
  for (size_t i = 0; i < row.size(); i += 10) row[i] = std::log(1e-30);
  row[1234] = 0;
  const std::vector<double> p = probabilities64(row, {});
  const std::vector<int64_t> tokens = draw(backends()[0].context, repeated(row, 400), {}, 8, 0);
  for (size_t i = 0; i < tokens.size(); ++i) EXPECT_TRUE(holds(p, tokens[i], uniform64(8, i))) << tokens[i];
  EXPECT_NEAR(static_cast<double>(std::count(tokens.begin(), tokens.end(), 1234)), 400 * p[1234], 50);
}

TEST(Sample, GreedyTakesTheHighestAndTiesTheLowestId) {
  for (const Backend& b : backends()) {
    for (const int64_t vocab : {1, 2, 7, 8, 9, 31, 100, 262144}) {
      for (const int64_t best : {int64_t{0}, vocab / 2, vocab - 1}) {
        TensorBox logits(FOVEA_F32, {3, vocab}), tokens(FOVEA_I64, {3});
        logits.fill([&](int64_t i) { return i % vocab >= best ? 2.0 : -1.0; });
        logits.set(vocab + vocab - 1, HUGE_VAL);       // +inf is the highest
        logits.set(2 * vocab, vocab > 1 ? NAN : 0.0);  // NaN is never chosen
        ASSERT_TRUE(run(b.context, SampleParams{.logits = logits, .tokens = tokens}));
        EXPECT_EQ(tokens.get(0), best);
        EXPECT_EQ(tokens.get(1), vocab - 1);
        EXPECT_EQ(tokens.get(2), vocab > 1 ? std::max<int64_t>(best, 1) : 0);
      }
    }
    // -0 and 0 are equal.
    TensorBox tokens(FOVEA_I32, {1});
    const TensorBox zeros = floats({-1, -0.0, 0.0, -0.0}, FOVEA_F32, {1, 4});
    ASSERT_TRUE(run(b.context, SampleParams{.logits = zeros, .tokens = tokens}));
    EXPECT_EQ(tokens.get(0), 1);
  }
}

// E01, E02: rows of NaN or -inf give -1 and say so; the others are as if they stood alone.
TEST(Sample, RowsWithoutANumber) {
  for (const Backend& b : backends()) {
    for (const float temperature : {0.0f, 1.0f}) {
      TensorBox logits(FOVEA_F32, {5, 50}), tokens(FOVEA_I32, {5});
      logits.fill([](int64_t i) {
        const int64_t row = i / 50, id = i % 50;
        if (row == 1) return kNaN;
        if (row == 3) return id % 2 ? kNaN : -HUGE_VAL;
        if (row == 4) return id == 33 ? -1e30 : -HUGE_VAL;
        return id == 20 ? 100.0 : 0.0;
      });
      SampleParams p{.temperature = temperature, .logits = logits, .tokens = tokens};
      const TensorBox positions = indices({0, 1, 2, 3, 4});
      if (temperature > 0) p.positions = positions;
      uint32_t status = 0;
      const Result result = run(b.context, p, {.status = &status});
      ASSERT_TRUE(result) << result.message;
      EXPECT_EQ(status, static_cast<uint32_t>(FOVEA_INVALID_VALUE));
      const std::vector<double> want = {20, -1, 20, -1, 33};
      EXPECT_TRUE(within(tokens, want, 0));
      const Result checked = run(b.context, p, {.flags = FOVEA_EXEC_CHECK});
      EXPECT_EQ(checked.code, FOVEA_INVALID_VALUE);
      EXPECT_EQ(checked.message, "logits[1] is without a number above -inf: its token is -1");
    }
  }
}

TEST(Sample, InfiniteLogitsShareAllTheMass) {
  std::vector<double> row(40, 1.0);
  row[7] = row[30] = HUGE_VAL;
  row[3] = NAN;
  row[4] = -HUGE_VAL;
  int64_t low = 0;
  for (const int64_t token : draw(backends()[0].context, repeated(row, 400), {.temperature = 0.7}, 5, 0)) {
    EXPECT_TRUE(token == 7 || token == 30) << token;
    low += token == 7;
  }
  EXPECT_GT(low, 150);
  EXPECT_LT(low, 250);
}

// E04: top_p at and beside the partial sums of equal weights keeps exactly ceil(p * vocab) tokens, lowest ids first.
TEST(Sample, TopPBesideItsPartialSums) {
  constexpr uint64_t kSeed = 3;
  const int64_t late = late_position(kSeed, 1 - 1e-5);
  for (const int64_t vocab : {2, 3, 7, 10, 64, 100, 333, 500}) {
    const TensorBox logits = repeated(std::vector<double>(static_cast<size_t>(vocab), 0.25), 1);
    for (int64_t j = 1; j < vocab; j += std::max<int64_t>(1, vocab / 40)) {
      const auto p = static_cast<float>(static_cast<double>(j) / static_cast<double>(vocab));
      for (const float top_p : {std::nextafter(p, 0.0f), p, std::nextafter(p, 1.0f)}) {
        const auto kept = static_cast<int64_t>(std::ceil(static_cast<double>(top_p) * static_cast<double>(vocab)));
        const Rule rule{.top_p = static_cast<double>(top_p)};
        EXPECT_EQ(draw(backends()[0].context, logits, rule, kSeed, late)[0], kept - 1) << vocab << ' ' << j;
      }
    }
  }
}

// E07: random rules never give an id outside what they keep.
TEST(Sample, IdsAreAlwaysInRange) {
  Rng rng = test_rng();
  std::vector<double> row;
  for (int i = 0; i < 300; ++i) row.push_back(rng.normal() * 5);
  const TensorBox logits = repeated(row, 500);
  for (int repeat = 0; repeat < 40; ++repeat) {
    const Rule rule{.top_p = static_cast<double>(static_cast<float>(rng.uniform()))};
    Rule wider = rule;
    wider.top_p = std::min(1.0, rule.top_p * (1 + 1e-6));
    const std::vector<double> p = probabilities64(row, wider);
    for (const int64_t token : draw(backends()[0].context, logits, rule, 9, repeat * 500)) {
      ASSERT_TRUE(token >= 0 && token < 300 && p[static_cast<size_t>(token)] > 0) << token << ' ' << rule.top_p;
    }
  }
}

// E09, E22: every value of a rule per row.
TEST(Sample, PerRowValues) {
  for (const Backend& b : backends()) {
    Rng rng = test_rng();
    constexpr int64_t kVocab = 3000;
    const std::vector<double> temperatures = {0, 1e-6, 1e6, HUGE_VAL, 1, 1, 1, 0.8};
    const std::vector<int64_t> ks = {0, 0, 0, 0, 1, 7, 2048, -1};
    const std::vector<double> ps = {1, 1, 1, 1, 1, 1, 1, 0.5}, mins = {0, 0, 0, 0, 0, 0, 0, 0.25};
    const std::vector<int64_t> seeds = {1, 2, 3, 4, 5, 6, 7, -8};
    const std::vector<int64_t> where = {0, 10, 20, 30, 40, 50, 60, int64_t{1} << 40};
    const auto rows = static_cast<int64_t>(ks.size());
    TensorBox logits(FOVEA_F32, {rows, kVocab}), tokens(FOVEA_I64, {rows}), seed_box(FOVEA_U64, {rows});
    logits.fill([&](int64_t) { return rng.normal() * 4; });
    const TensorBox positions = indices(where, FOVEA_I64), k_box = indices(ks), t_box = floats(temperatures),
                    p_box = floats(ps), m_box = floats(mins);
    const TensorBox seeds_box = indices(seeds, FOVEA_I64);
    const Result result = run(b.context, SampleParams{.logits = logits,
                                                      .tokens = tokens,
                                                      .positions = positions,
                                                      .temperatures = t_box,
                                                      .top_ks = k_box,
                                                      .top_ps = p_box,
                                                      .min_ps = m_box,
                                                      .seeds = seeds_box});
    ASSERT_TRUE(result) << result.message;
    for (int64_t r = 0; r < rows; ++r) {
      const auto i = static_cast<size_t>(r);
      std::vector<double> row;
      for (int64_t v = 0; v < kVocab; ++v) row.push_back(logits.get(r * kVocab + v));
      const auto token = static_cast<int64_t>(tokens.get(r));
      if (temperatures[i] == 0) {
        EXPECT_EQ(token, std::max_element(row.begin(), row.end()) - row.begin());
      } else {
        const Rule rule{.temperature = static_cast<double>(static_cast<float>(temperatures[i])),
                        .top_k = ks[i],
                        .top_p = ps[i],
                        .min_p = mins[i]};
        EXPECT_TRUE(
            right_token(row, rule, token, uniform64(static_cast<uint64_t>(seeds[i]), static_cast<uint64_t>(where[i]))));
      }
    }
  }
}

// E11: exactly k of many ties, the lowest ids, in a wide vocabulary with few distinct values.
TEST(Sample, TopKCountsTiesExactly) {
  constexpr int64_t kVocab = 131072;
  constexpr uint64_t kSeed = 11;
  const int64_t late = late_position(kSeed, 1 - 1e-6);
  std::vector<double> row(kVocab, 1.0);
  for (const int64_t k : {1, 2, 1000, 16384, 16385, 100000, 131071}) {
    EXPECT_EQ(draw(backends()[0].context, repeated(row, 1, FOVEA_BF16), {.top_k = k}, kSeed, late)[0], k - 1);
  }
  // A third of the ids is higher: they come first, then the lowest of the rest.
  for (int64_t i = 0; i < kVocab; ++i) row[static_cast<size_t>(i)] = i % 3 == 2 ? 1.0 : 0.875;
  const std::vector<double> p = probabilities64(row, {.temperature = 1e6, .top_k = 50000});
  int64_t last = kVocab - 1;
  while (p[static_cast<size_t>(last)] == 0) --last;
  EXPECT_EQ(
      draw(backends()[0].context, repeated(row, 1, FOVEA_BF16), {.temperature = 1e6, .top_k = 50000}, kSeed, late)[0],
      last);
}

// E17: a top-k that keeps everything is the same as none.
TEST(Sample, TopKThatIsOff) {
  Rng rng = test_rng();
  std::vector<double> row;
  for (int i = 0; i < 100; ++i) row.push_back(rng.normal());
  const TensorBox logits = repeated(row, 200);
  const std::vector<int64_t> want = draw(backends()[0].context, logits, {}, 1, 0);
  for (const int64_t k : {-1, INT32_MIN, 100, 101, INT32_MAX}) {
    EXPECT_EQ(draw(backends()[0].context, logits, {.top_k = k}, 1, 0), want) << k;
  }
}

TEST(Sample, TopPZeroKeepsTheBest) {
  const TensorBox logits = repeated({1, 3, 3, 2}, 100);
  for (const int64_t token : draw(backends()[0].context, logits, {.temperature = 100, .top_p = 0}, 1, 0)) {
    EXPECT_EQ(token, 1);
  }
}

// E22: extreme temperatures: the best, and every number alike.
TEST(Sample, TemperatureExtremes) {
  const TensorBox logits = repeated({0, 1, 1.001, -HUGE_VAL, NAN, -3e38}, 600);
  for (const double cold : {1e-45, 1e-6}) {
    for (const int64_t token : draw(backends()[0].context, logits, {.temperature = cold}, 1, 0)) EXPECT_EQ(token, 2);
  }
  std::vector<int64_t> count(6, 0);
  for (const int64_t token : draw(backends()[0].context, logits, {.temperature = HUGE_VAL}, 1, 0))
    ++count[static_cast<size_t>(token)];
  EXPECT_EQ(count[3] + count[4], 0);
  for (const int i : {0, 1, 2, 5}) EXPECT_NEAR(static_cast<double>(count[static_cast<size_t>(i)]), 150, 50) << i;
}

// K04, K01: the same token again, on every instruction set and number of threads, alone and in a batch.
TEST(Sample, SameDrawWhateverTheBatchThreadsOrInstructionSet) {
  Rng rng = test_rng();
  constexpr int64_t kRows = 40, kVocab = 4099;
  TensorBox logits(FOVEA_F32, {kRows, kVocab});
  logits.fill([&](int64_t) { return rng.normal() * 3; });
  for (const Rule& rule : {Rule{.temperature = 0.9}, Rule{.temperature = 1.3, .top_k = 300, .top_p = 0.95},
                           Rule{.top_p = 0.9, .min_p = 0.01}}) {
    const std::vector<int64_t> want = draw(backends()[0].context, logits, rule, 77, 1000);
    for (const Backend& b : backends()) EXPECT_EQ(draw(b.context, logits, rule, 77, 1000), want) << b.name;
    for (const int32_t threads : {1, 3}) EXPECT_EQ(draw(cpu_context(threads), logits, rule, 77, 1000), want);
    for (int repeat = 0; repeat < 20; ++repeat) ASSERT_EQ(draw(backends()[0].context, logits, rule, 77, 1000), want);
    for (int64_t r = 0; r < kRows; r += 7) {
      TensorBox alone(FOVEA_F32, {1, kVocab}, random_layout(rng, 2));
      alone.fill([&](int64_t i) { return logits.get(r * kVocab + i); });
      EXPECT_EQ(draw(backends()[0].context, alone, rule, 77, 1000 + r)[0], want[static_cast<size_t>(r)]);
    }
  }
}

// E14: a plan holds no random state: other positions or seeds, other draws.
TEST(Sample, PositionsAndSeedsAreReadByEachRun) {
  const TensorBox logits = repeated(std::vector<double>(1000, 0.0), 4);
  const std::vector<int64_t> first = draw(backends()[0].context, logits, {}, 1, 0);
  EXPECT_NE(first, draw(backends()[0].context, logits, {}, 1, 4));
  EXPECT_NE(first, draw(backends()[0].context, logits, {}, 2, 0));
}

TEST(Sample, WideVocabularies) {
  Rng rng = test_rng();
  for (const Backend& b : backends()) {
    for (const int64_t vocab : {32000, 128256, 262144}) {
      std::vector<double> row;
      for (int64_t i = 0; i < vocab; ++i) row.push_back(static_cast<double>(static_cast<float>(rng.normal() * 3)));
      for (const Rule& rule : {Rule{}, Rule{.top_k = 50}, Rule{.top_p = 0.75}, Rule{.min_p = 0.125}}) {
        const int64_t token = draw(b.context, repeated(row, 1), rule, 4, vocab)[0];
        EXPECT_TRUE(right_token(row, rule, token, uniform64(4, static_cast<uint64_t>(vocab))));
      }
    }
  }
}

TEST(Sample, EmptySizes) {
  TensorBox none(FOVEA_F32, {0, 9}), no_tokens(FOVEA_I32, {0}), narrow(FOVEA_F32, {2, 0}), tokens(FOVEA_I32, {2});
  EXPECT_TRUE(run(backends()[0].context, SampleParams{.logits = none, .tokens = no_tokens}));
  uint32_t status = 0;
  EXPECT_TRUE(run(backends()[0].context, SampleParams{.logits = narrow, .tokens = tokens}, {.status = &status}));
  EXPECT_TRUE(within(tokens, {-1, -1}, 0));
  EXPECT_EQ(status, static_cast<uint32_t>(FOVEA_INVALID_VALUE));
}

// What one bad argument answers; nothing may be written.
class SampleErrors : public ::testing::Test {
 protected:
  template <class Change>
  std::string message(const Change& change) {
    SampleParams p{.temperature = 1, .logits = logits, .tokens = tokens, .positions = positions};
    change(p);
    const Result result = run(backends()[0].context, p);
    EXPECT_NE(result.code, FOVEA_OK);
    EXPECT_TRUE(tokens.memory().all(kPoison));
    return result.message;
  }
  TensorBox logits{FOVEA_F32, {3, 10}}, tokens{FOVEA_I32, {3}}, positions = indices({0, 1, 2});
  const std::string unit = ": must be in [0, 1]";
};

TEST_F(SampleErrors, Scalars) {
  EXPECT_EQ(message([](auto& p) { p.temperature = -1; }), "temperature is -1: must be 0 (greedy) or above");
  EXPECT_EQ(message([](auto& p) { p.temperature = NAN; }), "temperature is nan: must be 0 (greedy) or above");
  EXPECT_EQ(message([](auto& p) { p.top_p = 1.5f; }), "top_p is 1.5" + unit);
  EXPECT_EQ(message([](auto& p) { p.min_p = -0.5f; }), "min_p is -0.5" + unit);
  EXPECT_EQ(message([](auto& p) { p.min_p = NAN; }), "min_p is nan" + unit);
  EXPECT_EQ(message([](auto& p) { p.positions = {}; }), "positions is absent: must be one of i32, i64");
  EXPECT_EQ(message([](auto& p) { p.tokens.shape[0] = 2; }), "tokens.shape[0] is 2: must be 3 (logits.shape[0])");
}

TEST_F(SampleErrors, OptionsOfADrawAtTemperatureZero) {
  const std::string why = ": has no effect at temperature 0: leave the default";
  const auto greedy = [&](auto&& change) {
    return message([&](auto& p) {
      p.temperature = 0;
      p.positions = {};
      change(p);
    });
  };
  EXPECT_EQ(greedy([](auto& p) { p.top_k = 5; }), "top_k is 5" + why);
  EXPECT_EQ(greedy([](auto& p) { p.top_p = 0.5f; }), "top_p is 0.5" + why);
  EXPECT_EQ(greedy([](auto& p) { p.min_p = 0.5f; }), "min_p is 0.5" + why);
  EXPECT_EQ(greedy([](auto& p) { p.seed = 1; }), "seed is 1" + why);
  EXPECT_EQ(greedy([&](auto& p) { p.positions = positions; }), "positions is given" + why);
  EXPECT_EQ(greedy([&](auto& p) { p.top_ks = positions; }), "top_ks is given" + why);
}

TEST_F(SampleErrors, ScalarsBesideTheirRows) {
  const TensorBox values = floats({1, 1, 1});
  EXPECT_EQ(message([&](auto& p) { p.temperatures = values; }), "temperature is 1: temperatures is given");
  EXPECT_EQ(message([&](auto& p) { p.top_k = 3, p.top_ks = positions; }), "top_k is 3: top_ks is given");
  EXPECT_EQ(message([&](auto& p) { p.top_p = 0.5f, p.top_ps = values; }), "top_p is 0.5: top_ps is given");
  EXPECT_EQ(message([&](auto& p) { p.min_p = 0.5f, p.min_ps = values; }), "min_p is 0.5: min_ps is given");
  EXPECT_EQ(message([&](auto& p) { p.top_ks = values; }), "top_ks is f32: must be i32");
  EXPECT_EQ(message([&](auto& p) { p.seeds = positions; }), "seeds is i32: must be one of u64, i64");
}

TEST_F(SampleErrors, ValuesOfRowsThatDraw) {
  const TensorBox cold = floats({0, 1, -1}), wide = floats({1, 0.5, 1.25}), ok = floats({1, 1, 1}),
                  zero = floats({0, 0, 0});
  const TensorBox negative = indices({0, -1, 2}), first_negative = indices({-5, 1, 2});
  EXPECT_EQ(message([&](auto& p) { p.temperature = 0, p.temperatures = cold; }),
            "temperatures[2] is -1: must be 0 (greedy) or above");
  EXPECT_EQ(message([&](auto& p) { p.top_ps = wide; }), "top_ps[2] is 1.25" + unit);
  EXPECT_EQ(message([&](auto& p) { p.min_ps = wide; }), "min_ps[2] is 1.25" + unit);
  EXPECT_EQ(message([&](auto& p) { p.positions = negative; }), "positions[1] is -1: must not be negative");
  // A greedy row looks at nothing else.
  logits.fill([](int64_t i) { return static_cast<double>(i % 7); });
  const TensorBox mixed = floats({0, 1, 1});
  EXPECT_TRUE(
      run(backends()[0].context,
          SampleParams{.logits = logits, .tokens = tokens, .positions = first_negative, .temperatures = mixed}));
}

}  // namespace
