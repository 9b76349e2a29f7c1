// SPDX-License-Identifier: Apache-2.0
// Penalties, bias and bit masks, their lists, and what is written beside the token.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "fovea/fovea.hpp"
#include "ops/sample_batch.h"
#include "support/backends.h"
#include "support/check.h"

namespace {

using namespace fovea::test;
using fovea::Result;
using fovea::SampleParams;
using fovea::oracle::edited64;
using fovea::oracle::log_softmax64;
using fovea::oracle::uniform64;

std::vector<double> row_of(const TensorBox& t, int64_t r) {
  return logits_of(t, r);
}

// The oracle's probabilities, with a cut moved by what f32 may err where that is needed to explain `got`.
::testing::AssertionResult right_probabilities(const std::vector<double>& got, const std::vector<double>& logits,
                                               const SampleRow& row) {
  // Edits round a logit up to three times, and exp(z) errs by the error of z.
  double largest = 0;
  for (const double x : edited64(logits, row.edits)) largest = std::max(largest, std::isfinite(x) ? std::abs(x) : 0.0);
  const double error = 1e-6 + 3e-7 * largest / std::max(row.rule.temperature, 1e-3);
  for (const double nudge : {1.0, 1 - error, 1 + error}) {
    for (const double nudge_min : {1.0, 1 - error, 1 + error}) {
      SampleRow r = row;
      r.rule.top_p = row.rule.top_p < 1 ? std::min(1.0, row.rule.top_p * nudge) : 1;
      r.rule.min_p = std::min(1.0, row.rule.min_p * nudge_min);
      const std::vector<double> want = probabilities_of(logits, r);
      bool same = true;
      for (size_t i = 0; i < want.size(); ++i) {
        same &= (want[i] == 0) == (got[i] == 0) || want[i] < 1e-37;
        same &= std::abs(want[i] - got[i]) <= 2 * error * want[i] + 1e-38;
      }
      if (same) return ::testing::AssertionSuccess();
    }
  }
  return ::testing::AssertionFailure() << "temperature " << row.rule.temperature << " top_k " << row.rule.top_k
                                       << " top_p " << row.rule.top_p << " min_p " << row.rule.min_p;
}

// Outputs of a batch, each of any layout.
struct Outputs {
  Outputs(Rng& rng, int64_t rows, int64_t vocab, int64_t top)
      : tokens(rng.pick({FOVEA_I32, FOVEA_I64}), {rows}),
        logprobs(FOVEA_F32, {rows}),
        top_ids(rng.pick({FOVEA_I32, FOVEA_I64}), {rows, top}, random_layout(rng, 2)),
        top_logprobs(FOVEA_F32, {rows, top}, random_layout(rng, 2)),
        probs(FOVEA_F32, {rows, vocab}, random_layout(rng, 2)) {}
  void put(SampleParams& p) const {
    p.tokens = tokens;
    p.logprobs = logprobs;
    p.top_ids = top_ids;
    p.top_logprobs = top_logprobs;
    p.probs = probs;
  }
  TensorBox tokens, logprobs, top_ids, top_logprobs, probs;
};

void expect_token(const Outputs& out, int64_t r, const SampleRow& row, const std::vector<double>& given) {
  const std::vector<double> got = row_of(out.probs, r);
  const auto token = static_cast<int64_t>(out.tokens.get(r));
  EXPECT_TRUE(right_probabilities(got, given, row)) << "row " << r << " vocab " << got.size();
  if (std::accumulate(got.begin(), got.end(), 0.0) == 0) {
    EXPECT_EQ(token, -1);
    EXPECT_EQ(out.logprobs.get(r), -HUGE_VAL);
  } else {
    EXPECT_TRUE(holds(got, token, uniform64(row.seed, static_cast<uint64_t>(row.position)))) << token;
  }
}

// `want` is the log-probability of each token, `by` what they are in order of.
void expect_logprobs(const Outputs& out, int64_t r, const std::vector<double>& want, std::vector<double> by) {
  const auto near = [](double got, double x) { return std::abs(got - x) <= 3e-6 * (1 + std::abs(x)); };
  const auto token = static_cast<int64_t>(out.tokens.get(r));
  if (token >= 0) {
    EXPECT_PRED2(near, out.logprobs.get(r), want[static_cast<size_t>(token)]);
  }
  for (double& x : by) x = std::isnan(x) ? -HUGE_VAL : x;
  std::vector<size_t> order(by.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) { return by[x] > by[y]; });
  const int64_t top = out.top_ids.view().shape[1];
  int64_t place = r * top;
  for (const size_t id : order) {
    if (place == (r + 1) * top) break;
    if (!(want[id] > -80)) continue;  // weights below e^-86 are 0
    EXPECT_EQ(out.top_ids.get(place), static_cast<double>(id)) << "row " << r << " place " << place - r * top;
    EXPECT_PRED2(near, out.top_logprobs.get(place), want[id]);
    ++place;
  }
  for (; place < (r + 1) * top; ++place) {
    EXPECT_LT(out.top_logprobs.get(place), -80);
    EXPECT_EQ(out.top_logprobs.get(place) == -HUGE_VAL, out.top_ids.get(place) == -1);
  }
}

// Any row beside any other, every parameter its own: the admissible tokens and their probabilities, the token of the
// row's uniform, and log-probabilities of either kind.
TEST(SampleEdits, EveryRowHasItsOwnDistribution) {
  for (const Backend& b : backends()) {
    SCOPED_TRACE(b.name);
    Rng rng = test_rng();
    for (int repeat = 0; repeat < 200 * effort(); ++repeat) {
      SCOPED_TRACE(seed_note());
      const int64_t n = rng.integer(1, 6), vocab = rng.pick({1, 2, 3, 7, 31, 32, 33, 65, 100, 1000, 5003});
      const TensorBox logits = random_logits(rng, n, vocab);
      std::vector<SampleRow> rows;
      for (int64_t r = 0; r < n; ++r) rows.push_back(random_row(rng, vocab));
      const SampleTensors tensors(rng, rows, vocab);
      const Outputs out(rng, n, vocab, rng.pick({int64_t{1}, std::min<int64_t>(5, vocab), vocab}));
      const bool raw = rng.chance(0.5);
      SampleParams p{.logits = logits, .logprobs_kind = raw ? FOVEA_LOGPROBS_RAW : FOVEA_LOGPROBS_PROCESSED};
      tensors.put(p);
      out.put(p);
      const Result result = run(b.context, p);
      ASSERT_TRUE(result) << result.message;
      EXPECT_TRUE(out.probs.outside_untouched() && out.top_logprobs.outside_untouched());
      for (int64_t r = 0; r < n; ++r) {
        const SampleRow& row = rows[static_cast<size_t>(r)];
        const std::vector<double> given = row_of(logits, r), edited = edited64(given, row.edits);
        expect_token(out, r, row, given);
        std::vector<double> want = row_of(out.probs, r);
        for (double& x : want) x = std::log(x);
        if (row.rule.temperature == 0) want = log_softmax64(edited);
        expect_logprobs(out, r, raw ? log_softmax64(given) : want, raw ? given : edited);
        if (HasFailure()) return;
      }
    }
  }
}

// The formulas, by hand. Penalties of logits on both sides of 0; the prompt counts for repetition alone.
TEST(SampleEdits, PenaltiesByHand) {
  const TensorBox logits = floats({4, -4, 4, -4, 0}, FOVEA_F32, {1, 5});
  const TensorBox history = indices({0, 1, 2, 3, 3, 2, 2}), ends = indices({0, 7}), prompt = indices({2});
  TensorBox tokens(FOVEA_I32, {1}), top_ids(FOVEA_I32, {1, 5}), top_logprobs(FOVEA_F32, {1, 5});
  ASSERT_TRUE(run(backends()[0].context, SampleParams{.logits = logits,
                                                      .tokens = tokens,
                                                      .repetition_penalty = 2,
                                                      .presence_penalty = 0.5f,
                                                      .frequency_penalty = 0.25f,
                                                      .logprobs_kind = FOVEA_LOGPROBS_PROCESSED,
                                                      .history_tokens = history,
                                                      .history_indptr = ends,
                                                      .history_prompt_lens = prompt,
                                                      .top_ids = top_ids,
                                                      .top_logprobs = top_logprobs}));
  const std::vector<double> x = {4 / 2.0, -4 * 2.0, 4 / 2.0 - 3 * 0.25 - 0.5, -4 * 2.0 - 2 * 0.25 - 0.5, 0};
  EXPECT_TRUE(within(top_ids, {0, 2, 4, 1, 3}, 0));
  const std::vector<double> want = log_softmax64(x);
  EXPECT_TRUE(within(top_logprobs, {want[0], want[2], want[4], want[1], want[3]}, 1e-5));
}

// Of two equal masks one is read as rows of words, LSB first; a greedy row without anything allowed says so.
TEST(SampleEdits, MaskBitsAreLsbFirst) {
  for (const Backend& b : backends()) {
    constexpr int64_t kVocab = 70;
    const TensorBox logits = floats(std::vector<double>(3 * kVocab, 1), FOVEA_F32, {3, kVocab});
    TensorBox bits(FOVEA_U32, {3, 3}), tokens(FOVEA_I64, {3});
    const auto set = [&](int64_t word, uint32_t value) { *static_cast<uint32_t*>(bits.at(word)) = value; };
    for (int64_t i = 0; i < 9; ++i) set(i, 0);
    set(1, 1u << 7);       // token 39
    set(3 + 2, 1u << 5);   // token 69
    set(6 + 2, ~0u << 6);  // beyond the vocabulary
    uint32_t status = 0;
    SampleParams p{.logits = logits, .tokens = tokens, .mask_bits = bits};
    ASSERT_TRUE(run(b.context, p, {.status = &status}));
    EXPECT_TRUE(within(tokens, {39, 69, -1}, 0));
    EXPECT_EQ(status, static_cast<uint32_t>(FOVEA_INVALID_VALUE));
    EXPECT_EQ(run(b.context, p, {.flags = FOVEA_EXEC_CHECK}).message,
              "logits[2] is without a number above -inf after penalties, bias and mask: its token is -1");
  }
}

TEST(SampleEdits, InfiniteBiasForcesAndForbids) {
  const TensorBox logits = floats({5, 1, 2, -HUGE_VAL, 5, 1, 2, -HUGE_VAL}, FOVEA_F32, {2, 4});
  const TensorBox ids = indices({0, 1, 3, 2}), values = floats({-HUGE_VAL, HUGE_VAL, HUGE_VAL, HUGE_VAL}),
                  ends = indices({0, 2, 4});
  TensorBox tokens(FOVEA_I32, {2});
  ASSERT_TRUE(run(
      backends()[0].context,
      SampleParams{.logits = logits, .tokens = tokens, .bias_ids = ids, .bias_values = values, .bias_indptr = ends}));
  EXPECT_TRUE(within(tokens, {1, 2}, 0)) << "-inf and +inf together are -inf";
}

// E21: natural logarithm; E16: what a draft is drawn from is what `probs` says, to the last bit the same whatever else
// is asked for.
TEST(SampleEdits, OutputsDoNotChangeTheDraw) {
  Rng rng = test_rng();
  constexpr int64_t kRows = 30, kVocab = 4099;
  TensorBox logits(FOVEA_F32, {kRows, kVocab}), plain(FOVEA_I32, {kRows}), tokens(FOVEA_I32, {kRows});
  logits.fill([&](int64_t) { return rng.normal() * 3; });
  std::vector<int64_t> positions(kRows);
  std::iota(positions.begin(), positions.end(), 5);
  const TensorBox at = indices(positions);
  SampleParams p{
      .top_k = 50, .temperature = 0.75f, .top_p = 0.9f, .seed = 3, .logits = logits, .tokens = plain, .positions = at};
  ASSERT_TRUE(run(backends()[0].context, p));
  TensorBox logprobs(FOVEA_F32, {kRows}), top_ids(FOVEA_I32, {kRows, 20}), top_logprobs(FOVEA_F32, {kRows, 20}),
      probs(FOVEA_F32, {kRows, kVocab});
  p.tokens = tokens;
  p.logprobs = logprobs, p.top_ids = top_ids, p.top_logprobs = top_logprobs, p.probs = probs;
  std::vector<std::byte> first;
  for (const Backend& b : backends()) {
    ASSERT_TRUE(run(b.context, p));
    EXPECT_EQ(tokens.bits(), plain.bits()) << b.name;
    if (first.empty()) first = probs.bits();
    EXPECT_EQ(probs.bits(), first) << b.name;
  }
  for (int64_t r = 0; r < kRows; ++r) {
    double shares = 0;
    for (int64_t i = 0; i < kVocab; ++i) shares += probs.get(r * kVocab + i);
    EXPECT_NEAR(shares, 1, 1e-6);
    EXPECT_NEAR(logprobs.get(r), log_softmax64(row_of(logits, r))[static_cast<size_t>(tokens.get(r))], 1e-5);
  }
}

// K01: alone and in a batch; one mask and one list may serve many rows.
TEST(SampleEdits, RowsShareListsAndMasks) {
  Rng rng = test_rng();
  constexpr int64_t kRows = 12, kVocab = 151936;
  TensorBox logits(FOVEA_BF16, {kRows, kVocab}), tokens(FOVEA_I32, {kRows});
  logits.fill([&](int64_t) { return rng.normal() * 2; });
  SampleRow row = random_row(rng, kVocab);
  row.rule = {.temperature = 0.875, .top_p = 0.75};
  row.edits = {.repetition = 1.5,
               .presence = 0.5,
               .frequency = 0.25,
               .prompt = {1, 2, 3},
               .output = {3, 4, 4},
               .bias = {{151935, 9.0}, {0, 9.0}},
               .allowed = {}};
  for (int64_t t = 0; t < kVocab; ++t) row.edits.allowed.push_back(t % 3 == 0);
  std::vector<SampleRow> rows(kRows, row);
  for (int64_t r = 0; r < kRows; ++r) rows[static_cast<size_t>(r)].position = r;
  SampleParams p{.logits = logits, .tokens = tokens};
  const SampleTensors tensors(rng, rows, kVocab);
  tensors.put(p);
  ASSERT_TRUE(run(backends()[0].context, p));
  // The same with one list, one mask and scalars.
  const TensorBox zeros = indices(std::vector<int64_t>(kRows, 0)), history = indices({1, 2, 3, 3, 4, 4}),
                  ends = indices({0, 6}), prompt = indices({3}), ids = indices({151935, 0}), values = floats({9, 9}),
                  bias_ends = indices({0, 2});
  TensorBox bits(FOVEA_U32, {1, kVocab / 32}), shared(FOVEA_I32, {kRows});
  for (int64_t w = 0; w < kVocab / 32; ++w) {
    uint32_t word = 0;
    for (int64_t bit = 0; bit < 32; ++bit) word |= (w * 32 + bit) % 3 == 0 ? 1u << bit : 0;
    *static_cast<uint32_t*>(bits.at(w)) = word;
  }
  const SampleParams one{.temperature = 0.875f,
                         .top_p = 0.75f,
                         .seed = row.seed,
                         .logits = logits,
                         .tokens = shared,
                         .positions = p.positions,
                         .repetition_penalty = 1.5f,
                         .presence_penalty = 0.5f,
                         .frequency_penalty = 0.25f,
                         .history_tokens = history,
                         .history_indptr = ends,
                         .history_rows = zeros,
                         .history_prompt_lens = prompt,
                         .bias_ids = ids,
                         .bias_values = values,
                         .bias_indptr = bias_ends,
                         .bias_rows = zeros,
                         .mask_bits = bits,
                         .mask_rows = zeros};
  ASSERT_TRUE(run(backends()[0].context, one));
  EXPECT_EQ(shared.bits(), tokens.bits());
  for (int64_t r = 0; r < kRows; ++r) {
    const std::vector<double> p64 = probabilities_of(row_of(logits, r), rows[static_cast<size_t>(r)]);
    EXPECT_TRUE(holds(p64, static_cast<int64_t>(tokens.get(r)), uniform64(row.seed, static_cast<uint64_t>(r)))) << r;
    if (r % 5) continue;
    TensorBox alone(FOVEA_I32, {1});
    SampleParams single{.logits = slice(logits, 0, r, r + 1), .tokens = alone};
    const SampleTensors own(rng, {rows[static_cast<size_t>(r)]}, kVocab);
    own.put(single);
    ASSERT_TRUE(run(backends()[0].context, single));
    EXPECT_EQ(alone.get(0), tokens.get(r));
  }
}

TEST(SampleEdits, DrawsHaveTheDistribution) {
  Rng rng = test_rng();
  constexpr int64_t kDraws = 20000, kVocab = 40;
  TensorBox logits(FOVEA_F32, {kDraws, kVocab}, {.broadcast = 1}), tokens(FOVEA_I32, {kDraws});
  for (int64_t i = 0; i < kVocab; ++i) logits.set(i, rng.normal());
  for (int compared = 0; compared < 5;) {
    SampleRow row = random_row(rng, kVocab);
    row.rule.temperature = 1.25;
    row.edits.repetition = 1.5;
    row.edits.output.push_back(3);
    std::vector<SampleRow> rows(kDraws, row);
    for (int64_t i = 0; i < kDraws; ++i) rows[static_cast<size_t>(i)].position = i;
    SampleParams p{.logits = logits, .tokens = tokens};
    const SampleTensors tensors(rng, rows, kVocab);
    tensors.put(p);
    ASSERT_TRUE(run(backends()[0].context, p));
    const std::vector<double> want = probabilities_of(logits_of(logits, 0), row);
    if (std::count_if(want.begin(), want.end(), [](double x) { return x > 0; }) < 2) continue;
    ++compared;
    std::vector<double> count(kVocab, 0);
    for (int64_t i = 0; i < kDraws; ++i) ++count[static_cast<size_t>(tokens.get(i))];
    const ChiSquare chi = chi_square(count, want);
    EXPECT_LT(chi.ratio, chi.limit);
  }
}

TEST(SampleEdits, EmptySizes) {
  TensorBox none(FOVEA_F32, {0, 9}), tokens(FOVEA_I32, {0}), logprobs(FOVEA_F32, {0}), probs(FOVEA_F32, {0, 9}),
      history(FOVEA_I32, {0}), ends = indices({0}), bits(FOVEA_U32, {0, 1});
  const Result result = run(backends()[0].context, SampleParams{.logits = none,
                                                                .tokens = tokens,
                                                                .repetition_penalty = 2,
                                                                .history_tokens = history,
                                                                .history_indptr = ends,
                                                                .mask_bits = bits,
                                                                .logprobs = logprobs,
                                                                .probs = probs});
  EXPECT_TRUE(result) << result.message;
}

}  // namespace
