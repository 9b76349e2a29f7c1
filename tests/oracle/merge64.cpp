// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "oracle/attention64.h"
#include "oracle/kv64.h"
#include "oracle/numbers.h"

namespace fovea::oracle {
namespace {

double number_at(const fovea_tensor& t, int64_t i) {
  return decode(t.dtype, static_cast<const std::byte*>(t.data) + element_offset(t, i) * bytes_of(t.dtype));
}

void merge_row(const fovea_merge_states_params& p, int64_t at, int64_t d, Attention64& r) {
  constexpr double kU32 = 0x1p-24;
  const int64_t heads = p.out.shape[p.out.rank - 2];
  const double none = -std::numeric_limits<double>::infinity();
  const double sink = p.sinks.dtype ? number_at(p.sinks, at % heads) : none;
  double top = sink;
  int live = 0;
  for (int i = 0; i < p.parts; ++i) {
    const double lse = number_at(p.lses[i], at);
    top = std::max(top, lse);
    live += lse != none;
  }
  if (top == none) return;
  double sum = sink == none ? 0 : std::exp(sink - top);
  for (int i = 0; i < p.parts; ++i) sum += std::exp(number_at(p.lses[i], at) - top);
  const auto row = static_cast<size_t>(at);
  r.lse[row] = top + std::log(sum);
  const bool copied = live <= 1 && sink == none;  // one part alone is passed on to the bit
  r.lse_bound[row] = copied ? 0 : ulp(FOVEA_F32, r.lse[row]) + 4 * kU32;
  double largest = 0;
  for (int64_t e = 0; e < d; ++e) {
    double x = 0, weight = 0;
    for (int i = 0; i < p.parts; ++i) {
      const double lse = number_at(p.lses[i], at);
      if (lse == none) continue;
      const double term = std::exp(lse - r.lse[row]) * number_at(p.outs[i], at * d + e);
      x += term;
      weight += std::fabs(term);
    }
    const auto element = static_cast<size_t>(at * d + e);
    r.out[element] = x;
    // A few roundings of each term, and the rounding of the lse, which the weights inherit.
    r.out_bound[element] = weight * kU32 * (8 + 2 * p.parts + 2 * std::fabs(r.lse[row]));
    largest = std::max(largest, std::fabs(x));
  }
  for (int64_t e = 0; e < d; ++e) {
    double& bound = r.out_bound[static_cast<size_t>(at * d + e)];
    bound = copied && p.out.dtype == FOVEA_F32 ? 0 : bound + ulp(p.out.dtype, largest);
  }
}

}  // namespace

Attention64 merge64(const fovea_merge_states_params& p) {
  const int64_t d = p.out.shape[p.out.rank - 1];
  int64_t rows = 1;
  for (int i = 0; i + 1 < p.out.rank; ++i) rows *= p.out.shape[i];
  Attention64 r;
  r.out.assign(static_cast<size_t>(rows * d), 0);
  r.out_bound = r.out;
  r.lse.assign(static_cast<size_t>(rows), -std::numeric_limits<double>::infinity());
  r.lse_bound.assign(r.lse.size(), 0);
  for (int64_t at = 0; at < rows; ++at) merge_row(p, at, d, r);
  r.same = r.out;
  return r;
}

}  // namespace fovea::oracle
