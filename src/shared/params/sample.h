// SPDX-License-Identifier: Apache-2.0
// sample: what a plan is made from, and the block a kernel receives. Freestanding.
#pragma once

#include "shared/view.h"

namespace fovea {

struct SampleSpec {
  Dtype logits = Dtype::none;
  Dtype tokens = Dtype::none;
  int greedy = 0;  // every row, and known when planning: nothing is drawn
  i64_t rows = 0;  // the most a run may have
  i64_t vocab = 0;
  bool operator==(const SampleSpec&) const = default;
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
};

// How one row is drawn.
struct SampleRule {
  float temperature;  // above 0, may be infinite
  i64_t top_k;        // 1 to vocab
  float top_p;        // [0, 1]
  float min_p;        // [0, 1]
  double draw;        // [0, 1)
};

// CPU: rows are dealt to at most this many tasks, each with its own workspace of three arrays of vocab words.
inline constexpr i64_t kSampleTasks = 16;

// Elements of one such array: whole cache lines.
constexpr i64_t sample_padded_vocab(i64_t vocab) {
  return (vocab + 15) / 16 * 16;
}

}  // namespace fovea
