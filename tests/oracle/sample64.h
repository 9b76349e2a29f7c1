// SPDX-License-Identifier: Apache-2.0
// Sampling in fp64 with a plain sort, and the random numbers it draws with.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace fovea::oracle {

struct Rule {
  double temperature = 1;
  int64_t top_k = 0;  // below 1: off
  double top_p = 1;
  double min_p = 0;
};

// Probability of each token after the filters, 0 for those filtered out; all 0 where no logit is a number above -inf.
std::vector<double> probabilities64(const std::vector<double>& logits, const Rule& rule);

// First word of Philox4x32-10 for (seed, position, stream), in [0, 1).
double uniform64(uint64_t seed, uint64_t position, uint32_t stream = 0);

// What happens to logits before any of the above.
struct Edits {
  double repetition = 1, presence = 0, frequency = 0;
  std::vector<int64_t> prompt, output;           // earlier tokens
  std::vector<std::pair<int64_t, double>> bias;  // token, value
  std::vector<bool> allowed;                     // of each token; empty: all
};
std::vector<double> edited64(std::vector<double> logits, const Edits& edits);

// Natural logarithm of softmax; NaN counts as -inf.
std::vector<double> log_softmax64(const std::vector<double>& logits);

}  // namespace fovea::oracle
