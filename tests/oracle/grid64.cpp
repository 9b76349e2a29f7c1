// SPDX-License-Identifier: Apache-2.0
#include "oracle/grid64.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <stdexcept>

namespace fovea::oracle {
namespace {

using Matrix = std::vector<std::vector<int>>;

// 1 for a square, -1 for what is none, 0 for 0, modulo the prime q.
int character(int a, int q) {
  a = (a % q + q) % q;
  if (a == 0) return 0;
  for (int i = 1; i < q; ++i) {
    if (i * i % q == a) return 1;
  }
  return -1;
}

Matrix paley_first(int q) {
  const int n = q + 1;
  Matrix m(static_cast<size_t>(n), std::vector<int>(static_cast<size_t>(n)));
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) {
      int s = i == 0 ? 1 : -1;
      if (i == 0 && j == 0) s = 0;
      if (i > 0 && j > 0) s = character(i - j, q);
      m[static_cast<size_t>(i)][static_cast<size_t>(j)] = s + (i == j);
    }
  }
  return m;
}

Matrix paley_second(int q) {
  const int n = q + 1;
  Matrix m(static_cast<size_t>(2 * n), std::vector<int>(static_cast<size_t>(2 * n)));
  constexpr int kOff[2][2] = {{1, 1}, {1, -1}}, kOn[2][2] = {{1, -1}, {-1, -1}};
  for (int i = 0; i < 2 * n; ++i) {
    for (int j = 0; j < 2 * n; ++j) {
      const int a = i / 2, b = j / 2;
      int c = 1;
      if (a > 0 && b > 0) c = character(a - b, q);
      if (a == b) c = 0;
      m[static_cast<size_t>(i)][static_cast<size_t>(j)] = c * kOff[i % 2][j % 2] + (a == b) * kOn[i % 2][j % 2];
    }
  }
  return m;
}

Matrix hadamard(int d) {
  for (const int order : {1, 12, 20, 28}) {
    const int power = d / order;
    if (d % order != 0 || (power & (power - 1)) != 0) continue;
    const Matrix small = order == 12 ? paley_first(11) : order == 20 ? paley_first(19) : paley_second(13);
    Matrix m(static_cast<size_t>(d), std::vector<int>(static_cast<size_t>(d)));
    for (int i = 0; i < d; ++i) {
      for (int j = 0; j < d; ++j) {
        const int sylvester = __builtin_popcount(static_cast<unsigned>(i % power & j % power)) % 2 ? -1 : 1;
        const int of_small = order == 1 ? 1 : small[static_cast<size_t>(i / power)][static_cast<size_t>(j / power)];
        m[static_cast<size_t>(i)][static_cast<size_t>(j)] = sylvester * of_small;
      }
    }
    return m;
  }
  throw std::invalid_argument("no rotation of " + std::to_string(d));
}

int sign_of_hash(uint64_t attempt, uint64_t d, uint64_t i) {
  uint64_t z = (attempt << 32 | d << 16 | i) + 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  z ^= z >> 31;
  return z >> 63 ? -1 : 1;
}

std::vector<int> signs(const Matrix& h) {
  const size_t d = h.size();
  for (uint64_t attempt = 0;; ++attempt) {
    std::vector<int> s(d);
    for (size_t i = 0; i < d; ++i) s[i] = sign_of_hash(attempt, d, i);
    int most = 0;
    for (const std::vector<int>& row : h) {
      most = std::max(most, std::abs(std::inner_product(row.begin(), row.end(), s.begin(), 0)));
    }
    if (most <= 3 * std::sqrt(static_cast<double>(d))) return s;
  }
}

std::vector<double> steps(const std::string& grid, double rms, double most) {
  std::vector<double> out;
  if (grid == "i8") return {most / 127};
  if (grid == "q6" || grid == "q5") {
    for (const double f : {0.80, 0.84, 0.87, 0.91, 0.94, 0.98, 1.01, 1.05}) {
      out.push_back(f * most / (grid == "q6" ? 32 : 16));
    }
    return out;
  }
  const double deviation = grid == "q4" ? 1.0914 : grid == "q3" ? 1.5052 : 1.6551;
  for (int i = 0; i < 8; ++i) out.push_back((0.80 + 0.06 * i) * rms / deviation);
  return out;
}

int nearest(const std::vector<double>& levels, double x) {
  size_t best = 0;
  for (size_t i = 0; i < levels.size(); ++i) {
    if (std::abs(levels[i] - x) < std::abs(levels[best] - x)) best = i;
  }
  return static_cast<int>(best);
}

}  // namespace

std::vector<double> rotation(int d) {
  const Matrix h = hadamard(d);
  const std::vector<int> s = signs(h);
  std::vector<double> r;
  for (const std::vector<int>& row : h) {
    for (size_t j = 0; j < row.size(); ++j) r.push_back(row[j] * s[j] / std::sqrt(static_cast<double>(d)));
  }
  return r;
}

std::vector<double> levels(const std::string& grid) {
  std::vector<double> out;
  if (grid == "i8") {
    for (int code = 0; code < 256; ++code) out.push_back(code < 128 ? code : code - 256);
    out[128] = 1e9;  // -128 is not used
    return out;
  }
  if (grid == "q6" || grid == "q5") {
    const int n = grid == "q6" ? 64 : 32;
    for (int code = 0; code < n; ++code) out.push_back(code - (n - 1) / 2.0);
    return out;
  }
  if (grid == "q4") out = {.140625, .40625, .6875, 1, 1.375, 1.75, 2.25, 3};
  if (grid == "q3") out = {.375, 1.125, 2, 3.25};
  if (grid == "q2") out = {.75, 2.5};
  const size_t n = out.size();
  for (size_t i = 0; i < n; ++i) out.push_back(-out[i]);
  return out;
}

Encoded encode(const std::string& grid, const std::vector<double>& r, const std::vector<double>& x) {
  const size_t d = x.size();
  std::vector<double> y(d);
  double power = 0, most = 0;
  for (size_t i = 0; i < d; ++i) {
    for (size_t j = 0; j < d; ++j) y[i] += r[i * d + j] * x[j];
    power += y[i] * y[i];
    most = std::max(most, std::abs(y[i]));
  }
  Encoded best{std::vector<int>(d), 0};
  if (most == 0) return best;
  const std::vector<double> all = levels(grid);
  double most_gain = -1;
  for (const double step : steps(grid, std::sqrt(power / static_cast<double>(d)), most)) {
    std::vector<int> codes(d);
    double along = 0, squares = 0;
    for (size_t i = 0; i < d; ++i) {
      codes[i] = nearest(all, y[i] / step);
      const double level = all[static_cast<size_t>(codes[i])];
      along += y[i] * level;
      squares += level * level;
    }
    if (along * along / squares > most_gain) {
      most_gain = along * along / squares;
      best = {codes, power / along};
    }
  }
  return best;
}

std::vector<double> decode(const std::string& grid, const std::vector<double>& r, const Encoded& e) {
  const size_t d = e.codes.size();
  const std::vector<double> all = levels(grid);
  std::vector<double> x(d);
  for (size_t i = 0; i < d; ++i) {
    const double level = e.scale == 0 ? 0 : e.scale * all[static_cast<size_t>(e.codes[i])];
    for (size_t j = 0; j < d; ++j) x[j] += r[i * d + j] * level;
  }
  return x;
}

}  // namespace fovea::oracle
