// SPDX-License-Identifier: Apache-2.0
#include "oracle/verify64.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace fovea::oracle {

namespace {

double sum(const std::vector<double>& p) {
  return std::accumulate(p.begin(), p.end(), 0.0);
}

// The token whose interval of the cumulated `p` holds `u`, and how far its ends are.
int64_t draw(const std::vector<double>& p, double u, double* margin) {
  const double total = sum(p);
  double before = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    const double end = before + p[i] / total;
    if (p[i] > 0 && u < end) {
      const bool last =
          std::all_of(p.begin() + static_cast<std::ptrdiff_t>(i) + 1, p.end(), [](double x) { return x == 0; });
      if (before > 0) *margin = std::min(*margin, u - before);
      if (!last) *margin = std::min(*margin, end - u);
      return static_cast<int64_t>(i);
    }
    before = end;
  }
  *margin = 0;
  return -1;
}

}  // namespace

Verified verify64(const DraftTree& tree,
                  const std::function<std::vector<double>(int64_t node, const std::vector<int64_t>& path)>& target,
                  const std::function<double(int64_t depth, uint32_t stream)>& uniform) {
  Verified out;
  int64_t node = 0;
  while (true) {
    const auto depth = static_cast<int64_t>(out.tokens.size());
    std::vector<double> p = target(node, out.tokens);
    if (sum(p) == 0) {
      out.tokens.push_back(-1);
      return out;
    }
    int64_t accepted = -1;
    uint32_t sibling = 0;
    for (size_t child = 1; child < tree.parents.size() && accepted < 0; ++child) {
      if (tree.parents[child] != node) continue;
      const auto token = static_cast<size_t>(tree.tokens[child]);
      std::vector<double> q = tree.drawn_from[child];
      if (q.empty()) q.assign(p.size(), 0), q[token] = 1;
      const double total = sum(q), p_total = sum(p);
      for (double& x : q) x /= total;
      for (double& x : p) x /= p_total;
      const double u = uniform(depth, 2 + sibling++), gap = p[token] - u * q[token];
      if (p[token] > 0) out.margin = std::min(out.margin, std::abs(gap));
      if (gap > 0) accepted = static_cast<int64_t>(child);
      if (accepted >= 0) break;
      for (size_t i = 0; i < p.size(); ++i) p[i] = std::max(p[i] - q[i], 0.0);
      out.margin = std::min(out.margin, sum(p));  // a small rest is mostly rounding
    }
    if (accepted < 0) {
      out.tokens.push_back(draw(p, uniform(depth, 1), &out.margin));
      return out;
    }
    node = accepted;
    out.tokens.push_back(tree.tokens[static_cast<size_t>(node)]);
    out.nodes.push_back(node);
  }
}

}  // namespace fovea::oracle
