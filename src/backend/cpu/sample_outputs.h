// SPDX-License-Identifier: Apache-2.0
// What sample writes beside the token of a row: log-probabilities and probabilities.
#pragma once

#include "backend/cpu/kernels/sample.h"

namespace fovea::cpu {

// log softmax of logits at a temperature, where the highest is `max` and sum exp((x - max) / temperature) is `total`.
struct LogSoftmax {
  float max;
  float temperature;
  double log_total;
  float operator()(float logit) const;
};

LogSoftmax log_softmax(const SampleKept& kept);

// to.top [0, n) in order to top_ids and top_logprobs of row r; then -1 and -inf.
void put_top(const SampleArgs& args, i64_t r, const LogSoftmax& logprob, const SampleWorkspace& to, i64_t n);
void put_logprob(const SampleArgs& args, i64_t r, float logprob);
// What the token is drawn from to `probs` of row r: all 0 where nothing is kept.
void put_probs(const SampleArgs& args, i64_t r, const SampleKept& kept, const SampleWorkspace& to);
// A row whose token is certain, or without one (-1).
void put_certain(const SampleArgs& args, i64_t r, i64_t token);

}  // namespace fovea::cpu
