// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding: the options as numbers, the table of frequencies, and which position turns which pair.
// Shared by rope and kv_append. Freestanding.
#pragma once

#include "shared/view.h"

namespace fovea {

inline constexpr int kMaxRotaryDim = 576;
inline constexpr int kMaxRotaryPairs = kMaxRotaryDim / 2;
inline constexpr int kMaxPositionRows = 4;
inline constexpr i64_t kPositionLimit = i64_t{1} << 31;  // positions are below it: angles in f64 stay exact enough

enum class RopeStyle : int { neox = 0, gptj = 1 };
enum class RopeScaling : int { none = 0, linear = 1, ntk = 2, yarn = 3, llama3 = 4, longrope = 5 };

// Everything of a rope configuration that shapes the result. rotary_dim 0: no rotation (kv_append without rope).
struct RotarySpec {
  RopeStyle style = RopeStyle::neox;
  RopeScaling scaling = RopeScaling::none;
  int rotary_dim = 0;
  int given_tables = 0;
  int position_rows = 1;  // above 1, or with sections: M-RoPE
  int section[kMaxPositionRows] = {};
  int interleaved = 0;
  int yarn_truncate = 1;
  double theta = 0;
  double factor = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  double beta_fast = 32;
  double beta_slow = 1;
  double attention_factor = 0;  // 0 = the formula of the scaling
  i64_t original_max_position = 0;
  float pair_factor[kMaxRotaryPairs] = {};  // longrope: the chosen list, [rotary_dim / 2]
  bool operator==(const RotarySpec&) const = default;
};

// Zero beyond rotary_dim / 2, so that kernels may compute whole vectors.
struct RotaryTable {
  double inv_freq[kMaxRotaryPairs] = {};  // radians per position
  double amplitude = 1;                   // multiplies cos and sin
  u8_t position_row[kMaxRotaryPairs] = {};
};

// The tensors behind it, per call.
struct RotaryInput {
  View positions;  // [position rows, tokens]
  View cos;        // absent, or f32 [positions, rotary_dim / 2]
  View sin;
};

// M-RoPE. Contiguous: the first section[0] pairs turn by row 0, the next section[1] by row 1, ...
// Interleaved: pair i turns by row i % rows while that row's section lasts, else by row 0.
constexpr int position_row(const RotarySpec& s, int pair) {
  if (s.interleaved) {
    const int row = pair % s.position_rows;
    return pair / s.position_rows < s.section[row] ? row : 0;
  }
  int row = 0;
  for (int end = s.section[0]; row + 1 < s.position_rows && pair >= end; end += s.section[row]) ++row;
  return row;
}

}  // namespace fovea
