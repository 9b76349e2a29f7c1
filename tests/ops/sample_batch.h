// SPDX-License-Identifier: Apache-2.0
// Batches for sample and verify whose rows each have everything of their own: as values of the test, and as tensors.
#pragma once

#include <vector>

#include "fovea/fovea.hpp"
#include "oracle/sample64.h"
#include "support/tensors.h"

namespace fovea::test {

struct SampleRow {
  oracle::Rule rule;  // temperature 0: greedy
  oracle::Edits edits;
  uint64_t seed = 0;
  int64_t position = 0;
};

// Filters, temperature, seed and position of any kind; penalties, bias and mask of any kind.
SampleRow random_row(Rng& rng, int64_t vocab);

// Logits of any type and layout with NaN, infinities and ties among them; at least one number in a row.
TensorBox random_logits(Rng& rng, int64_t rows, int64_t vocab);
std::vector<double> logits_of(const TensorBox& logits, int64_t row);

// The tensors that say what `rows` hold: lists shuffled among lists that nobody names, which hold nonsense.
class SampleTensors {
 public:
  // `mask_of`, for verify: the row of each row of logits.
  SampleTensors(Rng& rng, const std::vector<SampleRow>& rows, int64_t vocab,
                const std::vector<int64_t>* mask_of = nullptr);
  void put(SampleParams& p) const;

 private:
  struct Lists {
    TensorBox values, indptr, rows;
  };
  TensorBox positions_, temperatures_, top_ks_, top_ps_, min_ps_, seeds_;
  TensorBox repetition_, presence_, frequency_, prompt_lens_;
  Lists history_, bias_;
  TensorBox bias_values_, mask_bits_, mask_rows_;
};

// Probabilities of a row by the oracle: one token where it is greedy.
std::vector<double> probabilities_of(const std::vector<double>& logits, const SampleRow& row);

// Is `token` the one whose interval of the cumulated probabilities holds `uniform`? f32 weights move the ends by less
// than 1e-6.
bool holds(const std::vector<double>& p, int64_t token, double uniform);

// Chi-square of counts against probabilities over its degrees of freedom: 1 is expected. `limit` is 5 standard
// deviations above; an outcome that cannot be is infinite. Outcomes that are expected less than 5 times count as one.
struct ChiSquare {
  double ratio, limit;
};
ChiSquare chi_square(const std::vector<double>& count, const std::vector<double>& p);

}  // namespace fovea::test
