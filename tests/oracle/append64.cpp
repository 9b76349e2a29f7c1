// SPDX-License-Identifier: Apache-2.0
#include "oracle/append64.h"

#include <algorithm>
#include <cmath>

#include "oracle/kv64.h"
#include "oracle/numbers.h"
#include "oracle/rope64.h"

namespace fovea::oracle {
namespace {

double number_at(const fovea_tensor& t, int64_t i) {
  return decode(t.dtype, static_cast<const std::byte*>(t.data) + element_offset(t, i) * bytes_of(t.dtype));
}

// RMS norm of one head, or of its dims before the k_rope part. A dozen roundings of 2^-24 at most: squares, their sum
// by lanes, root, two products.
void norm_head(const fovea_kv_append_params& p, const fovea_tensor& weight, std::vector<double>& x,
               std::vector<double>& bound) {
  double squares = 0;
  for (double e : x) squares += e * e;
  const double factor = 1 / std::sqrt(squares / static_cast<double>(x.size()) + p.norm_eps);
  for (size_t d = 0; d < x.size(); ++d) {
    const double w = number_at(weight, static_cast<int64_t>(d));
    x[d] *= factor * (w + p.norm_weight_offset);
    bound[d] = 12 * 0x1p-24 * (std::fabs(x[d]) + std::fabs(w * x[d]));
  }
}

void transform(const fovea_kv_append_params& p, const fovea_tensor& t, const fovea_tensor& weight,
               std::vector<double>& out, std::vector<double>& out_bound) {
  const int64_t tokens = t.shape[0], heads = t.shape[1], d = t.shape[2];
  for (int64_t row = 0; row < tokens * heads; ++row) {
    std::vector<double> x(static_cast<size_t>(d)), bound(x.size(), 0.0);
    for (size_t e = 0; e < x.size(); ++e) x[e] = number_at(t, row * d + static_cast<int64_t>(e));
    const auto split = static_cast<std::ptrdiff_t>(x.size()) - p.kv->d_rope;
    if (weight.dtype) {
      std::vector<double> part(x.begin(), x.begin() + split);
      norm_head(p, weight, part, bound);
      std::copy(part.begin(), part.end(), x.begin());
    }
    if (p.rope) {
      const auto position = [&](int r) {
        return index_at(p.positions, (p.positions.rank == 2 ? r * tokens : 0) + row / heads);
      };
      double largest = 0;  // the rotation mixes two elements: either's error may reach both
      for (double b : bound) largest = std::max(largest, b);
      const std::ptrdiff_t first = p.kv->d_rope ? split : 0;
      std::vector<double> loss;
      const std::vector<double> turned = rope_head(*p.rope, {x.begin() + first, x.end()}, position, &loss);
      std::copy(turned.begin(), turned.end(), x.begin() + first);
      for (double& b : bound) b = largest > 0 ? 2 * largest : 0;
      for (size_t e = 0; e < loss.size(); ++e) bound[static_cast<size_t>(first) + e] += loss[e];
    }
    out.insert(out.end(), x.begin(), x.end());
    out_bound.insert(out_bound.end(), bound.begin(), bound.end());
  }
}

}  // namespace

Append64 append64(const fovea_kv_append_params& p) {
  Append64 r;
  transform(p, p.k, p.k_norm_weight, r.k, r.k_bound);
  if (p.q.dtype) transform(p, p.q, p.q_norm_weight, r.q, r.q_bound);
  if (p.k.dtype == FOVEA_F32 || (!p.k_norm_weight.dtype && !p.rope)) return r;
  for (size_t i = 0; i < r.k.size(); ++i) r.k_bound[i] += 0.5 * ulp(p.k.dtype, std::fabs(r.k[i]) + r.k_bound[i]);
  return r;
}

}  // namespace fovea::oracle
