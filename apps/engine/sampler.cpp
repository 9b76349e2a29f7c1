// SPDX-License-Identifier: Apache-2.0
#include "sampler.h"

#include <algorithm>

namespace fovea::app {

Sampler::Sampler(const Context& context, int64_t rows, int64_t vocab, std::span<const Sampling> options)
    : penalises_(std::any_of(options.begin(), options.end(), [](const Sampling& s) { return s.penalises(); })),
      temperatures_(rows),
      top_ps_(rows),
      min_ps_(rows),
      repetition_(rows),
      presence_(rows),
      frequency_(rows),
      logprobs_(rows),
      top_ks_(rows),
      tokens_(rows),
      positions_(rows),
      history_ends_(rows + 1),
      prompt_lens_(rows),
      seeds_(rows),
      op_(context, params(rows, vocab, options)) {}

SampleParams Sampler::params(int64_t rows, int64_t vocab, std::span<const Sampling> options) {
  for (const Sampling& s : options) top_ = std::max<int64_t>(top_, std::min<int64_t>(s.logprobs, vocab));
  top_ids_.resize(static_cast<size_t>(rows * top_));
  top_logprobs_.resize(static_cast<size_t>(rows * top_));
  SampleParams p{.logits = tensor(static_cast<const float*>(nullptr), {rows, vocab}),
                 .tokens = tensor(tokens_.data(), {rows}),
                 .positions = tensor(positions_.data(), {rows}),
                 .temperatures = tensor(temperatures_.data(), {rows}),
                 .top_ks = tensor(top_ks_.data(), {rows}),
                 .top_ps = tensor(top_ps_.data(), {rows}),
                 .min_ps = tensor(min_ps_.data(), {rows}),
                 .seeds = tensor(seeds_.data(), {rows})};
  if (penalises_) {
    p.repetition_penalties = tensor(repetition_.data(), {rows});
    p.presence_penalties = tensor(presence_.data(), {rows});
    p.frequency_penalties = tensor(frequency_.data(), {rows});
    p.history_tokens = tensor(history_.data(), {0});
    p.history_indptr = tensor(history_ends_.data(), {rows + 1});
    p.history_prompt_lens = tensor(prompt_lens_.data(), {rows});
  }
  if (top_ > 0) {
    p.logprobs = tensor(logprobs_.data(), {rows});
    p.top_ids = tensor(top_ids_.data(), {rows, top_});
    p.top_logprobs = tensor(top_logprobs_.data(), {rows, top_});
  }
  return p;
}

void Sampler::set(size_t row, const Sampling& s, std::span<const Token> tokens, int64_t prompt) {
  temperatures_[row] = s.temperature;
  top_ks_[row] = s.top_k;
  top_ps_[row] = s.top_p;
  min_ps_[row] = s.min_p;
  seeds_[row] = s.seed;
  positions_[row] = static_cast<int64_t>(tokens.size());
  if (!penalises_) return;
  repetition_[row] = s.repetition_penalty;
  presence_[row] = s.presence_penalty;
  frequency_[row] = s.frequency_penalty;
  if (row == 0) history_.clear();
  if (s.penalises()) history_.insert(history_.end(), tokens.begin(), tokens.end());
  prompt_lens_[row] = s.penalises() ? prompt : 0;
  history_ends_[row + 1] = static_cast<int64_t>(history_.size());
}

std::span<const int32_t> Sampler::draw(std::span<const float> logits, int64_t rows) {
  SampleParams& p = op_.params;
  p.logits.data = const_cast<float*>(logits.data());
  for (Tensor* t : {&p.logits, &p.tokens, &p.positions, &p.temperatures, &p.top_ks, &p.top_ps, &p.min_ps, &p.seeds,
                    &p.repetition_penalties, &p.presence_penalties, &p.frequency_penalties, &p.history_prompt_lens,
                    &p.logprobs, &p.top_ids, &p.top_logprobs}) {
    t->shape[0] = rows;
  }
  if (penalises_) {
    p.history_tokens = tensor(history_.data(), {static_cast<int64_t>(history_.size())});
    p.history_indptr.shape[0] = rows + 1;
  }
  op_.plan.run(p, workspace_.exec(op_.plan));
  return {tokens_.data(), static_cast<size_t>(rows)};
}

TokenLogprobs Sampler::logprobs(size_t row, int32_t top) const {
  TokenLogprobs out{.logprob = logprobs_[row], .top = {}};
  const auto first = row * static_cast<size_t>(top_);
  for (size_t i = first; i < first + std::min(static_cast<size_t>(top), static_cast<size_t>(top_)); ++i) {
    if (top_ids_[i] >= 0) out.top.emplace_back(top_ids_[i], top_logprobs_[i]);
  }
  return out;
}

}  // namespace fovea::app
