// SPDX-License-Identifier: Apache-2.0
#include "oracle/quantize64.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "fovea/fovea.h"
#include "oracle/numbers.h"

namespace fovea::oracle {

namespace {

using Values = std::vector<double>;

Values whole(int low, int high) {
  Values v;
  for (int i = low; i <= high; ++i) v.push_back(i);
  return v;
}

// `sorted` is in rising order.
double nearest(const Values& sorted, double x) {
  const auto above = std::lower_bound(sorted.begin(), sorted.end(), x);
  if (above == sorted.begin()) return sorted.front();
  if (above == sorted.end()) return sorted.back();
  return *above - x < x - above[-1] ? *above : above[-1];
}

double error_under(const Values& codes, const double* x, int n, double d) {
  double error = 0;
  for (int i = 0; i < n; ++i) {
    const double r = x[i] - (d == 0 ? 0 : d * nearest(codes, x[i] / d));
    error += r * r;
  }
  return error;
}

double extreme(const double* x, int n) {
  double most = 0;
  for (int i = 0; i < n; ++i) most = std::max(most, std::fabs(x[i]));
  return most;
}

// Every f16 scale of either sign that puts the largest weight near an end of the codes.
double least_with_f16_scale(const Values& codes, const double* x, int n) {
  const double most = extreme(x, n), end = std::max(-codes.front(), codes.back());
  double least = error_under(codes, x, n, 0);
  for (uint16_t bits = 1; bits < 0x7C00; ++bits) {
    const double d = decode(FOVEA_F16, &bits);
    if (d * end * 2 < most || d * end > most * 2) continue;
    least = std::min({least, error_under(codes, x, n, d), error_under(codes, x, n, -d)});
  }
  return least;
}

double least_with_power_of_two(const Values& codes, const double* x, int n) {
  double least = error_under(codes, x, n, 0);
  for (int e = -127; e <= 127; ++e) least = std::min(least, error_under(codes, x, n, std::ldexp(1, e)));
  return least;
}

// A fine grid of scales, each with the best scale for its codes.
double least_with_scale(const Values& codes, const double* x, int n) {
  const double most = extreme(x, n), end = std::max(-codes.front(), codes.back());
  double least = error_under(codes, x, n, 0);
  for (double t = end * 0.6; t < end * 1.6; t += end * 0.0025) {
    for (const double d : {most / t, -most / t}) {
      double xq = 0, qq = 0;
      for (int i = 0; i < n; ++i) {
        const double q = d == 0 ? 0 : nearest(codes, x[i] / d);
        xq += x[i] * q;
        qq += q * q;
      }
      if (qq > 0) least = std::min(least, error_under(codes, x, n, xq / qq));
    }
  }
  return least;
}

// The best line for the codes round((x - m) / d) in [0, top].
double line_error(int top, const double* x, int n, double d, double m, bool below_zero) {
  double q = 0, qq = 0, sum = 0, xq = 0;
  std::vector<double> codes;
  for (int i = 0; i < n; ++i) {
    const double c = d == 0 ? 0 : std::clamp<double>(std::nearbyint((x[i] - m) / d), 0, top);
    codes.push_back(c);
    q += c;
    qq += c * c;
    sum += x[i];
    xq += x[i] * c;
  }
  const double spread = qq - q * q / n;
  if (spread > 0) {
    d = (xq - q * sum / n) / spread;
    m = (sum - d * q) / n;
  }
  if (below_zero && m > 0) {
    m = 0;
    d = qq > 0 ? xq / qq : 0;
  }
  double error = 0;
  for (int i = 0; i < n; ++i) {
    const double r = x[i] - (d * codes[static_cast<size_t>(i)] + m);
    error += r * r;
  }
  return error;
}

double least_with_line(int top, const double* x, int n, bool below_zero) {
  double low = *std::min_element(x, x + n);
  const double high = *std::max_element(x, x + n);
  if (below_zero) low = std::min(low, 0.0);
  double least = HUGE_VAL;
  for (double t = std::max(top * 0.7, top - 3.0); t < top * 1.2 + 3; t += 0.1) {
    const double d = (high - low) / t;
    for (double anchor = 0; anchor <= 1; anchor += 0.125) {
      least = std::min(least, line_error(top, x, n, d, low + anchor * (high - low - top * d), below_zero));
    }
  }
  return least;
}

template <class Part>
double over_parts(const double* x, int n, int part, const Part& least) {
  double sum = 0;
  for (int i = 0; i < n; i += part) sum += least(x + i);
  return sum;
}

}  // namespace

double least_error(int32_t dtype, const double* x) {
  const auto scales = [&](int low, int high) {
    return over_parts(x, 256, 16, [&](const double* p) { return least_with_scale(whole(low, high), p, 16); });
  };
  const auto lines = [&](int top, int part) {
    return over_parts(x, 256, part, [&](const double* p) { return least_with_line(top, p, part, true); });
  };
  switch (dtype) {
    case FOVEA_Q4_0:
      return least_with_f16_scale(whole(-8, 7), x, 32);
    case FOVEA_Q5_0:
      return least_with_f16_scale(whole(-16, 15), x, 32);
    case FOVEA_Q8_0:
      return least_with_f16_scale(whole(-128, 127), x, 32);
    case FOVEA_IQ4_NL:
      return least_with_f16_scale({-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}, x, 32);
    case FOVEA_MXFP4:
      return least_with_power_of_two({-6, -4, -3, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 3, 4, 6}, x, 32);
    case FOVEA_Q4_1:
      return least_with_line(15, x, 32, false);
    case FOVEA_Q5_1:
      return least_with_line(31, x, 32, false);
    case FOVEA_Q2_K:
      return lines(3, 16);
    case FOVEA_Q3_K:
      return scales(-4, 3);
    case FOVEA_Q4_K:
      return lines(15, 32);
    case FOVEA_Q5_K:
      return lines(31, 32);
    case FOVEA_Q6_K:
      return scales(-32, 31);
    default:
      return NAN;
  }
}

}  // namespace fovea::oracle
