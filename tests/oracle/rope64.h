// SPDX-License-Identifier: Apache-2.0
// Rotary embedding once more, from the published formulas, in long double. Nothing here comes from the library.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "fovea/fovea.h"

namespace fovea::oracle {

struct Frequencies {
  std::vector<long double> per_pair;
  long double amplitude = 1;
};

inline Frequencies rope_frequencies(const fovea_rope_config& c, int dims) {
  const long double pi = 3.14159265358979323846264338327950288L;
  const long double base = c.theta, s = c.factor, length = c.original_max_position;
  Frequencies f;
  for (int i = 0; i < dims / 2; ++i) {
    const long double plain = 1 / std::pow(base, 2.0L * i / dims);
    long double w = plain;
    switch (c.scaling) {
      case FOVEA_ROPE_SCALING_LINEAR:
        w = plain / s;
        break;
      case FOVEA_ROPE_SCALING_NTK:
        w = 1 / std::pow(base * std::pow(s, dims / (dims - 2.0L)), 2.0L * i / dims);
        break;
      case FOVEA_ROPE_SCALING_YARN: {
        const auto correction = [&](long double turns) {
          return dims * std::log(length / (turns * 2 * pi)) / (2 * std::log(base));
        };
        long double low = correction(c.beta_fast), high = correction(c.beta_slow);
        if (c.yarn_truncate) low = std::floor(low), high = std::ceil(high);
        low = std::max(low, 0.0L);
        high = std::min(high, dims - 1.0L);
        if (low == high) high += 0.001L;
        const long double ramp = std::min(1.0L, std::max(0.0L, (i - low) / (high - low)));
        const long double extrapolate = 1 - ramp;
        w = plain / s * (1 - extrapolate) + plain * extrapolate;
        break;
      }
      case FOVEA_ROPE_SCALING_LLAMA3: {
        const long double wave = 2 * pi / plain;
        if (wave > length / c.low_freq_factor) {
          w = plain / s;
        } else if (wave >= length / c.high_freq_factor) {
          const long double smooth = (length / wave - c.low_freq_factor) / (c.high_freq_factor - c.low_freq_factor);
          w = (1 - smooth) * plain / s + smooth * plain;
        }
        break;
      }
      case FOVEA_ROPE_SCALING_LONGROPE:
        w = plain / (c.max_position > c.original_max_position ? c.long_factor : c.short_factor)[i];
        break;
      default:
        break;
    }
    f.per_pair.push_back(w);
  }
  if (c.scaling == FOVEA_ROPE_SCALING_YARN) f.amplitude = 0.1L * std::log(s) + 1;
  if (c.scaling == FOVEA_ROPE_SCALING_LONGROPE) f.amplitude = std::sqrt(1 + std::log(s) / std::log(length));
  if (c.attention_factor != 0) f.amplitude = c.attention_factor;
  return f;
}

// Which position row turns a pair, by building the whole assignment the way the model code does.
inline std::vector<int> rope_rows(const fovea_rope_config& c, int dims) {
  std::vector<int> rows(static_cast<size_t>(dims / 2), 0);
  int used = 0;
  for (int r = 0; r < 4; ++r) used = c.mrope_section[r] > 0 ? r + 1 : used;
  if (used == 0) return rows;
  if (c.mrope_interleaved) {
    for (int r = 1; r < used; ++r) {
      for (int i = r; i < used * c.mrope_section[r]; i += used) rows[static_cast<size_t>(i)] = r;
    }
    return rows;
  }
  size_t next = 0;
  for (int r = 0; r < used; ++r) {
    for (int k = 0; k < c.mrope_section[r]; ++k) rows[next++] = r;
  }
  return rows;
}

// One head of `d` values. position(row) is the token's position in that row. Adds to `bound` what f32 arithmetic may
// lose in each element.
inline std::vector<double> rope_head(const fovea_rope_config& c, std::vector<double> x,
                                     const std::function<int64_t(int)>& position,
                                     std::vector<double>* bound = nullptr) {
  const int d = static_cast<int>(x.size()), dims = c.rotary_dim ? c.rotary_dim : d, half = dims / 2;
  const Frequencies f = rope_frequencies(c, dims);
  const std::vector<int> rows = rope_rows(c, dims);
  if (bound) bound->assign(x.size(), 0);
  for (int i = 0; i < half; ++i) {
    const size_t p = static_cast<size_t>(c.style == FOVEA_ROPE_NEOX ? i : 2 * i);
    const size_t q = static_cast<size_t>(c.style == FOVEA_ROPE_NEOX ? i + half : 2 * i + 1);
    const long double angle = static_cast<long double>(position(rows[static_cast<size_t>(i)])) * f.per_pair[i];
    const long double cosine = f.amplitude * std::cos(angle), sine = f.amplitude * std::sin(angle);
    const long double a = x[p], b = x[q];
    x[p] = static_cast<double>(a * cosine - b * sine);
    x[q] = static_cast<double>(b * cosine + a * sine);
    if (!bound) continue;
    // Three roundings of 2^-24 on each product and sum, and 2^-52 of the angle.
    const long double unit = 3 * 0x1p-24L + std::fabs(angle) * 0x1p-51L;
    (*bound)[p] = (*bound)[q] = static_cast<double>((std::fabs(a) + std::fabs(b)) * f.amplitude * unit);
  }
  return x;
}

}  // namespace fovea::oracle
