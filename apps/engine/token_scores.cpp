// SPDX-License-Identifier: Apache-2.0
#include "token_scores.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace fovea::app {
namespace {

struct Softmax {
  size_t best = 0;
  double sum = 0;      // of the weights
  double log_sum = 0;  // of the exponentials: log p(i) = row[i] - log_sum
};

// weights[i] = exp(row[i] - the largest logit)
Softmax softmax(std::span<const float> row, std::span<double> weights) {
  Softmax s;
  s.best = static_cast<size_t>(std::max_element(row.begin(), row.end()) - row.begin());
  const double largest = row[s.best];
  for (size_t i = 0; i < row.size(); ++i) {
    weights[i] = std::exp(row[i] - largest);
    s.sum += weights[i];
  }
  s.log_sum = largest + std::log(s.sum);
  return s;
}

bool all_finite(std::span<const float> row) {
  return std::all_of(row.begin(), row.end(), [](float x) { return std::isfinite(x); });
}

}  // namespace

bool score_token(std::span<const std::span<const float>> rows, Token target, std::span<double> weights,
                 std::span<TokenScore> scores) {
  if (!std::all_of(rows.begin(), rows.end(), all_finite)) return false;
  std::vector<Softmax> softmaxes(rows.size());
  for (size_t r = rows.size(); r-- > 0;) softmaxes[r] = softmax(rows[r], weights);  // those of the first row stay
  const Softmax& first = softmaxes[0];
  for (size_t r = 0; r < rows.size(); ++r) {
    double gap = 0;  // mean of what the logits differ by, under the first row's probabilities
    for (size_t i = 0; i < weights.size(); ++i) {
      gap += weights[i] * (static_cast<double>(rows[0][i]) - static_cast<double>(rows[r][i]));
    }
    gap /= first.sum;
    const Softmax& own = softmaxes[r];
    scores[r] = {.nll = own.log_sum - rows[r][static_cast<size_t>(target)],
                 .kl = std::max(0.0, gap - first.log_sum + own.log_sum),  // rounding must not make it negative
                 .agrees = own.best == first.best};
  }
  return true;
}

void ScoreSums::add(const TokenScore& other, const TokenScore& own) {
  kls_.push_back(own.kl);
  agreed_ += own.agrees ? 1 : 0;
  const auto n = static_cast<double>(kls_.size());
  const double from_other = other.nll - mean_other_, from_own = own.nll - mean_, from_kl = own.kl - mean_kl_;
  mean_other_ += from_other / n;
  mean_ += from_own / n;
  mean_kl_ += from_kl / n;
  squares_other_ += from_other * (other.nll - mean_other_);
  squares_ += from_own * (own.nll - mean_);
  products_ += from_other * (own.nll - mean_);
  squares_kl_ += from_kl * (own.kl - mean_kl_);
}

double ScoreSums::perplexity() const {
  return kls_.empty() ? std::numeric_limits<double>::quiet_NaN() : std::exp(mean_);
}

ScoreSummary ScoreSums::summary() const {
  ScoreSummary s;
  s.tokens = tokens();
  if (s.tokens == 0) return s;
  const auto n = static_cast<double>(s.tokens);
  // Of a mean, from a sum of squared deviations.
  const auto error = [&](double squares) {
    return n > 1 ? std::sqrt(std::max(0.0, squares) / (n - 1) / n) : std::numeric_limits<double>::quiet_NaN();
  };
  const double other = std::exp(mean_other_);
  s.perplexity = std::exp(mean_);
  s.delta = s.perplexity - other;
  s.perplexity_error = s.perplexity * error(squares_);
  // d(exp(m) - exp(m0)) = exp(m) dm - exp(m0) dm0: the error of the mean of exp(m) nll - exp(m0) nll0 over the pairs.
  s.delta_error = error(s.perplexity * s.perplexity * squares_ + other * other * squares_other_ -
                        2 * s.perplexity * other * products_);
  s.kl_mean = mean_kl_;
  s.kl_error = error(squares_kl_);
  s.kl_p99 = quantile(kls_, 0.99);
  s.kl_max = *std::max_element(kls_.begin(), kls_.end());
  s.agreement = static_cast<double>(agreed_) / n;
  return s;
}

double quantile(std::vector<double> values, double part) {
  const double place = part * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::ptrdiff_t>(place);
  std::nth_element(values.begin(), values.begin() + low, values.end());
  const double below = values[static_cast<size_t>(low)];
  if (low + 1 == std::ssize(values)) return below;
  const double above = *std::min_element(values.begin() + low + 1, values.end());
  return below + (place - static_cast<double>(low)) * (above - below);
}

}  // namespace fovea::app
