// SPDX-License-Identifier: Apache-2.0
// Draws one token per row of logits; every row has its own options, seed and position.
#pragma once

#include <cstdint>
#include <fovea/fovea.hpp>
#include <span>
#include <utility>
#include <vector>

#include "graph.h"
#include "tokenizer.h"

namespace fovea::app {

struct Sampling {
  float temperature = 0.0f;  // 0 = greedy
  int32_t top_k = 0;         // 0 = off
  float top_p = 1.0f;
  float min_p = 0.0f;
  uint64_t seed = 0;
  float repetition_penalty = 1.0f;  // of tokens of the prompt and the answer; 1 = off
  float presence_penalty = 0.0f;    // of tokens of the answer; 0 = off
  float frequency_penalty = 0.0f;
  int32_t logprobs = 0;  // likeliest tokens to list beside each token of the answer; 0 = no log-probabilities

  bool penalises() const { return repetition_penalty != 1 || presence_penalty != 0 || frequency_penalty != 0; }
};

// Natural logarithms of the softmax of the model's logits.
struct TokenLogprobs {
  float logprob = 0;
  std::vector<std::pair<Token, float>> top;  // best first
};

class Sampler {
 public:
  // For up to `rows` rows, of requests with any of these options.
  Sampler(const Context& context, int64_t rows, int64_t vocab, std::span<const Sampling> options);

  // `tokens` are those of the row's sequence, `prompt` of them the prompt's; the new token comes after them.
  void set(size_t row, const Sampling& s, std::span<const Token> tokens, int64_t prompt);
  // Of rows [0, rows), which must have been set, in order.
  std::span<const int32_t> draw(std::span<const float> logits, int64_t rows);
  TokenLogprobs logprobs(size_t row, int32_t top) const;  // of the last draw

  const Plan<SampleParams>& plan() const { return op_.plan; }

 private:
  SampleParams params(int64_t rows, int64_t vocab, std::span<const Sampling> options);

  bool penalises_ = false;
  int64_t top_ = 0;
  std::vector<float> temperatures_, top_ps_, min_ps_, repetition_, presence_, frequency_, logprobs_, top_logprobs_;
  std::vector<int32_t> top_ks_, tokens_, top_ids_, history_;
  std::vector<int64_t> positions_, history_ends_, prompt_lens_;
  std::vector<uint64_t> seeds_;
  Planned<SampleParams> op_;
  HostWorkspace workspace_;
};

}  // namespace fovea::app
