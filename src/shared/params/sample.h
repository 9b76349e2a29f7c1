// SPDX-License-Identifier: Apache-2.0
// sample: what a plan is made from, and the block a kernel receives. Freestanding.
#pragma once

#include "shared/view.h"

namespace fovea {

struct SampleSpec {
  Dtype logits = Dtype::none;
  Dtype tokens = Dtype::none;
  int greedy = 0;     // every row, and known when planning: nothing is drawn
  int penalties = 0;  // some row may have them
  int bias = 0;
  int mask = 0;
  int logprobs = 0;  // of the token
  int raw_logprobs = 0;
  int probs = 0;
  i64_t top = 0;   // likeliest tokens that are listed
  i64_t rows = 0;  // the most a run may have
  i64_t vocab = 0;
  bool operator==(const SampleSpec&) const = default;

  constexpr bool edits() const { return penalties || bias || mask; }
  constexpr bool copies() const { return !greedy || edits() || logprobs || top > 0 || probs; }  // rows into a workspace
};

struct SampleArgs {
  SampleSpec spec;
  View logits;     // [rows, vocab]
  View tokens;     // [rows]
  View positions;  // [rows]; absent where greedy
  // Per row, each [rows] or absent: then the value below holds for every row.
  View temperatures;  // f32
  View top_ks;        // i32
  View top_ps;        // f32
  View min_ps;        // f32
  View seeds;         // 64 bits
  float temperature = 0;
  int top_k = 0;
  float top_p = 1;
  float min_p = 0;
  u64_t seed = 0;
  View repetition_penalties, presence_penalties, frequency_penalties;  // f32, as above
  float repetition_penalty = 1;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  // List l of `tokens` or `ids` is [indptr[l], indptr[l + 1]); that of row r is l = rows[r], or r.
  View history_tokens, history_indptr, history_rows, history_prompt_lens;
  View bias_ids, bias_values, bias_indptr, bias_rows;
  View mask_bits;  // [masks, words]
  View mask_rows;
  View logprobs;               // [rows]
  View top_ids, top_logprobs;  // [rows, n]
  View probs;                  // [rows, vocab]
};

// How one row is drawn.
struct SampleRule {
  float temperature = 1;  // above 0, may be infinite
  i64_t top_k = 0;        // 1 to vocab
  float top_p = 1;        // [0, 1]
  float min_p = 0;        // [0, 1]
};

// What is done to one row of logits before.
struct SampleEdits {
  float repetition = 1;
  float presence = 0;
  float frequency = 0;
  i64_t history_begin = 0, history_end = 0;  // of history_tokens
  i64_t outputs_begin = 0;                   // where the prompt is over
  i64_t bias_begin = 0, bias_end = 0;        // of bias_ids and bias_values
  i64_t mask = -1;                           // of mask_bits; -1: none

  constexpr bool penalise() const { return repetition != 1 || presence != 0 || frequency != 0; }
};

// CPU: rows are dealt to at most this many tasks, each with its own workspace.
inline constexpr i64_t kSampleTasks = 16;

// Words of one array of such a workspace: whole cache lines.
constexpr i64_t sample_padded(i64_t n) {
  return (n + 15) / 16 * 16;
}
// Bytes of such a workspace: three arrays of vocab words, and the likeliest as words of 64 bits.
constexpr i64_t sample_workspace_bytes(const SampleSpec& s) {
  return 12 * sample_padded(s.vocab) + 8 * sample_padded(s.top);
}
constexpr i64_t sample_tasks(i64_t rows) {
  return rows < kSampleTasks ? rows : kSampleTasks;
}
// Of all tasks, with what aligns them.
constexpr i64_t sample_scratch_bytes(const SampleSpec& s, i64_t rows) {
  return s.copies() && rows > 0 ? sample_tasks(rows) * sample_workspace_bytes(s) + 64 : 0;
}

}  // namespace fovea
