// SPDX-License-Identifier: Apache-2.0
// Attention and merging as the definitions say them, in fp64, with the error bound of each element.
//
// |out - ref64| <= 2 * E_row + floor. E_row is the largest error, in that row and head, of a plain reference at the
// precision of the operands: P rounded to the operand type, sums in fp32; and no less than 2.5 standard deviations of
// rounding P at random, because that reference is one sample. floor is one ulp of the output type at the
// row's largest |out|, plus u32 * sum p|v| * sqrt(len), plus the first-order effect of a few fp32 roundings of each
// logit, sum p |v - out| * (4 u32 + u^2) * (sum |q k| + |logit|), with u of the operands where Q is f32 (it may be
// split into two of them), else 0: in a row of few keys the reference's own error may vanish by luck, and then says
// nothing about the logits' conditioning.
#pragma once

#include <cstdint>
#include <vector>

#include "fovea/fovea.h"

namespace fovea::oracle {

struct Attention64 {
  std::vector<double> out;        // Q's rows and heads, row-major, d_v: before the cast to the output type
  std::vector<double> lse;        // Q's rows and heads
  std::vector<double> out_bound;  // as out
  std::vector<double> lse_bound;  // as lse
  std::vector<double> same;       // as out: the same-precision reference
};

Attention64 attention64(const fovea_attention_params& p);

// Rows of sequence b of n queries, of len keys over all segments.
struct Sequence {
  int64_t n;
  int64_t len;
  int64_t first_row;  // of Q flattened to [rows, heads, d]
};
int64_t batch_of(const fovea_attention_params& p);
Sequence sequence_of(const fovea_attention_params& p, int64_t b);

// Position j of a sequence: which segment and which token of it.
struct Key {
  int segment;
  int64_t token;
};
Key key_at(const fovea_attention_params& p, int64_t b, int64_t j);
// Does query i of sequence b see key j? The interval of the mask, `starts` and the shard; and the packed bits.
bool in_interval(const fovea_attention_params& p, int64_t b, int64_t i, int64_t j);
bool visible(const fovea_attention_params& p, int64_t b, int64_t i, int64_t j);

Attention64 merge64(const fovea_merge_states_params& p);

}  // namespace fovea::oracle
