// SPDX-License-Identifier: Apache-2.0
#include "oracle/sample64.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace fovea::oracle {

std::vector<double> probabilities64(const std::vector<double>& logits, const Rule& rule) {
  std::vector<size_t> order;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > -HUGE_VAL) order.push_back(i);  // not NaN
  }
  std::vector<double> p(logits.size(), 0);
  if (order.empty()) return p;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  const double best = logits[order[0]];
  const auto weight = [&](size_t i) {
    if (logits[i] == best) return 1.0;
    if (std::isinf(best)) return 0.0;
    const double w = std::exp((logits[i] - best) / rule.temperature);
    return w < std::exp(-86.0) ? 0.0 : w;
  };
  if (rule.top_k > 0) order.resize(std::min(order.size(), static_cast<size_t>(rule.top_k)));
  double total = 0;
  for (const size_t i : order) total += weight(i);
  double before = 0, kept = 0;
  for (const size_t i : order) {
    const bool inside = i == order[0] || (rule.top_p >= 1 || before < rule.top_p * total);
    if (inside && weight(i) >= rule.min_p) p[i] = weight(i);
    before += weight(i);
    kept += p[i];
  }
  for (double& x : p) x /= kept;
  return p;
}

double uniform64(uint64_t seed, uint64_t position, uint32_t stream) {
  uint32_t c[4] = {static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), stream, 0};
  uint32_t k[2] = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  for (int i = 0; i < 10; ++i) {
    const uint64_t p0 = static_cast<uint64_t>(c[0]) * 3528531795u, p1 = static_cast<uint64_t>(c[2]) * 3449720151u;
    const uint32_t next[4] = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(p1),
                              static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(p0)};
    std::copy(next, next + 4, c);
    k[0] += 2654435769u;
    k[1] += 3144134277u;
  }
  return c[0] / 4294967296.0;
}

std::vector<double> edited64(std::vector<double> logits, const Edits& e) {
  for (size_t t = 0; t < logits.size(); ++t) {
    double& x = logits[t];
    const auto token = static_cast<int64_t>(t);
    const auto in_output = std::count(e.output.begin(), e.output.end(), token);
    const bool seen = in_output > 0 || std::count(e.prompt.begin(), e.prompt.end(), token) > 0;
    if (seen) x = x > 0 ? x / e.repetition : x * e.repetition;
    x -= e.frequency * static_cast<double>(in_output);
    if (in_output > 0) x -= e.presence;
    for (const auto& [id, value] : e.bias) {
      if (id == token) x += value;
    }
    if (!e.allowed.empty() && !e.allowed[t]) x = -HUGE_VAL;
  }
  return logits;
}

std::vector<double> log_softmax64(const std::vector<double>& logits) {
  double best = -HUGE_VAL, total = 0;
  for (const double x : logits) {
    if (x > best) best = x;
  }
  const auto above_best = [&](double x) {
    if (best == -HUGE_VAL || !(x <= best)) return -HUGE_VAL;
    return x == best ? 0.0 : std::isinf(best) ? -HUGE_VAL : x - best;
  };
  for (const double x : logits) total += std::exp(above_best(x));
  std::vector<double> out;
  for (const double x : logits) out.push_back(total > 0 ? above_best(x) - std::log(total) : -HUGE_VAL);
  return out;
}

}  // namespace fovea::oracle
