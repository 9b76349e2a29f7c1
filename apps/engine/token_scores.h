// SPDX-License-Identifier: Apache-2.0
// What rows of logits say about the tokens that came next, and what many of them say together. All sums are f64.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tokenizer.h"

namespace fovea::app {

// One prediction of one model, beside the same prediction of the model that is compared with.
struct TokenScore {
  double nll = 0;       // -log p(the token that came)
  double kl = 0;        // sum of p0 log(p0 / p), p0 that of the other model
  bool agrees = false;  // on the most likely token; of equal logits the lowest index is
};

// `rows` are logits of the same prediction, [vocab] each; all are compared with the first one. Writes a score for each.
// False: a logit is NaN or infinite, and nothing of `scores` counts. `weights` is memory for it to use, [vocab].
bool score_token(std::span<const std::span<const float>> rows, Token target, std::span<double> weights,
                 std::span<TokenScore> scores);

struct ScoreSummary {
  int64_t tokens = 0;
  double perplexity = 0;  // exp of the mean nll
  double delta = 0;       // of the perplexities, this model's minus the other's
  double kl_mean = 0, kl_p99 = 0, kl_max = 0;
  double agreement = 0;  // part of the tokens
  // Standard errors, as if the tokens were independent; that of delta is of pairs. NaN where there is one token only.
  double perplexity_error = 0, delta_error = 0, kl_error = 0;
};

// Memory: 8 bytes for each token, for the quantile.
class ScoreSums {
 public:
  void add(const TokenScore& other, const TokenScore& own);  // `other` is that of the first row
  int64_t tokens() const { return static_cast<int64_t>(kls_.size()); }
  double perplexity() const;  // NaN before the first token
  ScoreSummary summary() const;

 private:
  // Running means, and sums of products of deviations from them (Welford).
  double mean_other_ = 0, mean_ = 0, mean_kl_ = 0;
  double squares_other_ = 0, squares_ = 0, products_ = 0, squares_kl_ = 0;
  int64_t agreed_ = 0;
  std::vector<double> kls_;
};

// Linear between the two nearest of the sorted values; part 0 is the least, 1 the largest. `values` is not empty.
double quantile(std::vector<double> values, double part);

}  // namespace fovea::app
