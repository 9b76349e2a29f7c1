// SPDX-License-Identifier: Apache-2.0
// Sampling in fp64 with a plain sort, and the random numbers it draws with.
#pragma once

#include <cstdint>
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

// First word of Philox4x32-10 for (seed, position), in [0, 1).
double uniform64(uint64_t seed, uint64_t position);

}  // namespace fovea::oracle
