// SPDX-License-Identifier: Apache-2.0
// Edits of a row of logits before anything is drawn. Work is proportional to the lists; only a bit mask walks the row.
//
//   repetition r  of tokens in prompt or output: x / r where x > 0, else x * r      (Keskar et al., CTRL, 2019)
//   frequency f, presence p  of tokens that are n > 0 times in the output: x - f n - p
//   bias          x + value, for each pair of the list
//   bit mask      -inf where the bit is 0
#include "backend/cpu/kernels/sample_edits.h"

#include "backend/cpu/kernels/sample.h"

namespace fovea::cpu {

namespace {

constexpr float kNone = -__builtin_inff();
constexpr u32_t kDone = 1u << 31;

// NaN (inf - inf) as -inf, -0 as 0: what the order of logits expects.
float canonical(float x) {
  return x == x ? x + 0.0f : kNone;
}

float penalised(const SampleEdits& e, float x, u32_t count) {
  x = x > 0 ? x / e.repetition : x * e.repetition;
  if (count > 0) x = x - e.frequency * static_cast<float>(count) - e.presence;
  return canonical(x);
}

// Three passes over the history, so that nothing of the size of the vocabulary is cleared.
void penalise(const SampleArgs& a, const SampleEdits& e, const View& path, i64_t n_path, float* logits, u32_t* counts) {
  const auto for_each = [&](const auto& body) {
    for (i64_t i = e.history_begin; i < e.history_end; ++i) body(index_at(a.history_tokens, i), i >= e.outputs_begin);
    for (i64_t i = 0; i < n_path; ++i) body(index_at(path, i), true);
  };
  for_each([&](i64_t token, bool) { counts[token] = 0; });
  for_each([&](i64_t token, bool output) { counts[token] += output; });
  for_each([&](i64_t token, bool) {
    if (counts[token] & kDone) return;
    logits[token] = penalised(e, logits[token], counts[token]);
    counts[token] |= kDone;
  });
}

void apply_mask(const u32_t* words, i64_t vocab, float* logits) {
  for (i64_t first = 0; first < vocab; first += 32) {
    const u32_t word = words[first / 32];
    if (word == ~0u) continue;
    const i64_t count = vocab - first < 32 ? vocab - first : 32;
    for (i64_t i = 0; i < count; ++i) logits[first + i] = word >> i & 1 ? logits[first + i] : kNone;
  }
}

}  // namespace

void edit_logits(const SampleArgs& a, const SampleEdits& e, const View& path, i64_t n_path, float* logits,
                 u32_t* counts) {
  if (e.penalise()) penalise(a, e, path, n_path, logits, counts);
  for (i64_t i = e.bias_begin; i < e.bias_end; ++i) {
    float& x = logits[index_at(a.bias_ids, i)];
    x = canonical(x + load<float>(row(a.bias_values, i)));
  }
  if (e.mask >= 0) apply_mask(reinterpret_cast<const u32_t*>(row_or_null(a.mask_bits, e.mask)), a.spec.vocab, logits);
}

}  // namespace fovea::cpu
