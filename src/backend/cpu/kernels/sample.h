// SPDX-License-Identifier: Apache-2.0
// The steps of a row: load, [edit,] keep, draw. Everything is in the order of the ids.
#pragma once

#include "backend/cpu/kernels/isa.h"
#include "shared/params/sample.h"

namespace fovea::cpu {

// What is left of a row after the filters: entries [0, n) of the arrays below.
struct SampleKept {
  i64_t n = 0;
  bool all = false;  // the whole row: entry i is token i, and `ids` is not used
  float max = 0;     // highest logit
  float temperature = 1;
  double total = 0;  // of the weights
};

struct SampleWorkspace {
  float* logits = nullptr;   // [vocab]
  float* weights = nullptr;  // [vocab]; 0 where filtered out
  i32_t* ids = nullptr;      // [vocab], ascending
  u64_t* top = nullptr;      // [top]
  i32_t id(const SampleKept& kept, i64_t i) const { return kept.all ? static_cast<i32_t>(i) : ids[i]; }
};

// Row r of a matrix. Null where rows have no elements: their memory may be, and an offset to null is undefined.
inline char* row_or_null(const View& v, i64_t r) {
  return v.shape[1] > 0 ? row(v, r) : nullptr;
}

// The lowest id of the highest logit of a packed row, or -1 where none is a number above -inf.
i64_t sample_best(const Isa& isa, Dtype type, const char* row, i64_t vocab);
// The highest of [n]; none may be NaN.
float sample_peak(const Isa& isa, const float* logits, i64_t n);
// Row as f32, NaN as -inf, to [vocab]; answers the highest.
float sample_load(const Isa& isa, const View& from, i64_t row, float* to);
// Temperature and filters; `max`, the highest of to.logits, must be above -inf.
SampleKept sample_keep(const Isa& isa, i64_t vocab, const SampleRule& rule, float max, const SampleWorkspace& to);
// The token at `uniform`, in [0, 1), of the total weight, which must be above 0.
i64_t sample_draw(const Isa& isa, const SampleKept& kept, const SampleWorkspace& to, double uniform);
// The first k entries of the order of the logits, of weight above 0 where `drawable`, in to.top; answers how many.
i64_t sample_top(const Isa& isa, const SampleKept& kept, const SampleWorkspace& to, i64_t k, bool drawable);
// Sum of exp(logit - max) over to.logits [n]; takes to.weights for it.
double sample_total(const Isa& isa, i64_t n, float max, const SampleWorkspace& to);

}  // namespace fovea::cpu
