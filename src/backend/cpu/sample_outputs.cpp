// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/sample_outputs.h"

#include <algorithm>
#include <cmath>

#include "backend/cpu/sample_values.h"

namespace fovea::cpu {

namespace {

constexpr float kNone = -__builtin_inff();

// The logit of an entry of to.top, whose upper half is its key in descending order.
float logit_of(u64_t entry) {
  const u32_t key = ~static_cast<u32_t>(entry >> 32);
  return float_of_bits(key ^ (key >> 31 ? 0x80000000u : 0xFFFFFFFFu));
}

float* floats_of(char* row) {
  return reinterpret_cast<float*>(row);
}

}  // namespace

float LogSoftmax::operator()(float logit) const {
  if (logit == max) return static_cast<float>(-log_total);
  if (logit == kNone || std::isinf(max)) return kNone;
  const double z = (static_cast<double>(logit) - static_cast<double>(max)) / static_cast<double>(temperature);
  return static_cast<float>(z - log_total);
}

LogSoftmax log_softmax(const SampleKept& kept) {
  return {.max = kept.max, .temperature = kept.temperature, .log_total = std::log(kept.total)};
}

void put_top(const SampleArgs& a, i64_t r, const LogSoftmax& logprob, const SampleWorkspace& to, i64_t n) {
  std::sort(to.top, to.top + n);
  float* logprobs = floats_of(row(a.top_logprobs, r));
  for (i64_t i = 0; i < a.spec.top; ++i) {
    put_index(a.top_ids, r, i, i < n ? static_cast<i64_t>(static_cast<u32_t>(to.top[i])) : -1);
    logprobs[i] = i < n ? logprob(logit_of(to.top[i])) : kNone;
  }
}

void put_logprob(const SampleArgs& a, i64_t r, float logprob) {
  *floats_of(row(a.logprobs, r)) = logprob;
}

void put_probs(const SampleArgs& a, i64_t r, const SampleKept& kept, const SampleWorkspace& to) {
  float* probs = floats_of(row_or_null(a.probs, r));
  if (!kept.all) std::fill_n(probs, a.spec.vocab, 0.0f);
  for (i64_t i = 0; i < kept.n; ++i) {
    probs[to.id(kept, i)] = static_cast<float>(static_cast<double>(to.weights[i]) / kept.total);
  }
}

void put_certain(const SampleArgs& a, i64_t r, i64_t token) {
  float* probs = floats_of(row_or_null(a.probs, r));
  std::fill_n(probs, a.spec.vocab, 0.0f);
  if (token >= 0) probs[token] = 1;
}

}  // namespace fovea::cpu
