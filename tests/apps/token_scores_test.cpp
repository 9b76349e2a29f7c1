// SPDX-License-Identifier: Apache-2.0
#include "engine/token_scores.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace fovea::app {
namespace {

using Row = std::vector<float>;

Row random_row(std::mt19937* rng, size_t vocab, float spread, float centre = 0.0f) {
  std::normal_distribution<float> draw(centre, spread);
  Row row(vocab);
  for (float& x : row) x = draw(*rng);
  return row;
}

// Probabilities by the plain formula.
std::vector<long double> probabilities(const Row& row) {
  const long double largest = *std::max_element(row.begin(), row.end());
  std::vector<long double> p;
  long double sum = 0;
  for (const float x : row) sum += p.emplace_back(std::exp(static_cast<long double>(x) - largest));
  for (long double& x : p) x /= sum;
  return p;
}

std::vector<TokenScore> score(const std::vector<Row>& rows, Token target) {
  std::vector<std::span<const float>> views(rows.begin(), rows.end());
  std::vector<double> weights(rows[0].size());
  std::vector<TokenScore> scores(rows.size());
  EXPECT_TRUE(score_token(views, target, weights, scores));
  return scores;
}

TEST(TokenScores, AreThePlainFormulas) {
  std::mt19937 rng(7);
  for (const float centre : {0.0f, 300.0f, -20000.0f}) {  // exp of the second and third overflows and vanishes
    for (int round = 0; round < 30; ++round) {
      const size_t vocab = 2 + rng() % 400;
      std::vector<Row> rows = {random_row(&rng, vocab, 4, centre), random_row(&rng, vocab, 4, centre)};
      rows.push_back(rows[0]);
      for (float& x : rows[2]) x += 0.01f * static_cast<float>(rng() % 7);
      const auto target = static_cast<Token>(rng() % vocab);
      const std::vector<TokenScore> scores = score(rows, target);
      const std::vector<long double> p0 = probabilities(rows[0]);
      const auto best0 = std::max_element(p0.begin(), p0.end()) - p0.begin();
      for (size_t r = 0; r < rows.size(); ++r) {
        const std::vector<long double> p = probabilities(rows[r]);
        long double kl = 0;
        for (size_t i = 0; i < vocab; ++i) kl += p0[i] * std::log(p0[i] / p[i]);
        EXPECT_NEAR(scores[r].nll, static_cast<double>(-std::log(p[static_cast<size_t>(target)])), 1e-11);
        EXPECT_NEAR(scores[r].kl, static_cast<double>(kl), 1e-11);
        EXPECT_EQ(scores[r].agrees, std::max_element(p.begin(), p.end()) - p.begin() == best0);
      }
      EXPECT_EQ(scores[0].kl, 0);
      EXPECT_TRUE(scores[0].agrees);
    }
  }
}

TEST(TokenScores, OfEqualLogitsTheLowestIndexIsTheMostLikely) {
  const std::vector<TokenScore> scores = score({{1, 3, 3}, {1, 3, 2}, {1, 2, 3}}, 0);
  EXPECT_TRUE(scores[1].agrees);
  EXPECT_FALSE(scores[2].agrees);
}

TEST(TokenScores, LogitsThatAreNotNumbersAreTold) {
  std::vector<double> weights(3);
  std::vector<TokenScore> scores(2);
  const Row good = {1, 2, 3};
  for (const float bad :
       {std::nanf(""), std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}) {
    const Row row = {1, bad, 3};
    const std::span<const float> first[] = {row, good}, second[] = {good, row};
    EXPECT_FALSE(score_token(first, 0, weights, scores));
    EXPECT_FALSE(score_token(second, 0, weights, scores));
  }
}

TEST(TokenScores, SumsAreThePlainFormulas) {
  std::mt19937 rng(11);
  std::normal_distribution<double> draw(0, 1);
  const size_t n = 1000;
  std::vector<TokenScore> other(n), own(n);
  ScoreSums sums, same;
  for (size_t i = 0; i < n; ++i) {
    other[i].nll = 2.5 + draw(rng);
    own[i] = {.nll = other[i].nll + 0.02 + 0.1 * draw(rng), .kl = std::exp(draw(rng) - 5), .agrees = rng() % 10 > 0};
    sums.add(other[i], own[i]);
    same.add(other[i], {.nll = other[i].nll, .kl = 0, .agrees = true});
  }
  const auto mean = [&](const auto& value) {
    double sum = 0;
    for (size_t i = 0; i < n; ++i) sum += value(i);
    return sum / n;
  };
  const auto error = [&](const auto& value) {  // standard error of the mean
    const double centre = mean(value);
    return std::sqrt(mean([&](size_t i) { return (value(i) - centre) * (value(i) - centre); }) / (n - 1));
  };
  const auto own_nll = [&](size_t i) { return own[i].nll; };
  const double p = std::exp(mean(own_nll)), p0 = std::exp(mean([&](size_t i) { return other[i].nll; }));
  std::vector<double> kls;
  for (const TokenScore& s : own) kls.push_back(s.kl);
  std::sort(kls.begin(), kls.end());

  const ScoreSummary s = sums.summary();
  EXPECT_EQ(s.tokens, 1000);
  EXPECT_NEAR(s.perplexity, p, 1e-12 * p);
  EXPECT_NEAR(sums.perplexity(), p, 1e-12 * p);
  EXPECT_NEAR(s.delta, p - p0, 1e-11);
  EXPECT_NEAR(s.perplexity_error, p * error(own_nll), 1e-12);
  EXPECT_NEAR(s.delta_error, error([&](size_t i) { return p * own[i].nll - p0 * other[i].nll; }), 1e-12);
  EXPECT_LT(s.delta_error, 0.2 * s.perplexity_error);  // pairs tell what two samples could not
  EXPECT_NEAR(s.kl_mean, mean([&](size_t i) { return own[i].kl; }), 1e-14);
  EXPECT_NEAR(s.kl_error, error([&](size_t i) { return own[i].kl; }), 1e-14);
  EXPECT_NEAR(s.kl_p99, kls[989] + 0.01 * (kls[990] - kls[989]), 1e-14);  // place 0.99 * 999 = 989.01
  EXPECT_EQ(s.kl_max, kls.back());
  EXPECT_NEAR(s.agreement, mean([&](size_t i) { return own[i].agrees ? 1.0 : 0.0; }), 1e-15);

  const ScoreSummary equal = same.summary();
  EXPECT_EQ(equal.delta, 0);
  EXPECT_NEAR(equal.delta_error, 0, 1e-7);
  EXPECT_EQ(equal.agreement, 1);
}

TEST(TokenScores, OneTokenHasNoError) {
  ScoreSums sums;
  EXPECT_TRUE(std::isnan(sums.perplexity()));
  EXPECT_EQ(sums.summary().tokens, 0);
  sums.add({.nll = 1}, {.nll = 2, .kl = 0.5, .agrees = false});
  const ScoreSummary s = sums.summary();
  EXPECT_NEAR(s.perplexity, std::exp(2.0), 1e-12);
  EXPECT_NEAR(s.delta, std::exp(2.0) - std::exp(1.0), 1e-12);
  EXPECT_TRUE(std::isnan(s.perplexity_error) && std::isnan(s.delta_error) && std::isnan(s.kl_error));
  EXPECT_EQ(s.kl_p99, 0.5);
  EXPECT_EQ(s.agreement, 0);
}

TEST(TokenScores, Quantile) {
  EXPECT_EQ(quantile({3}, 0.99), 3);
  EXPECT_EQ(quantile({4, 1, 3, 2, 5}, 0), 1);
  EXPECT_EQ(quantile({4, 1, 3, 2, 5}, 0.5), 3);
  EXPECT_EQ(quantile({4, 1, 3, 2, 5}, 1), 5);
  EXPECT_DOUBLE_EQ(quantile({4, 1, 3, 2, 5}, 0.6), 3.4);
}

}  // namespace
}  // namespace fovea::app
