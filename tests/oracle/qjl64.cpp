// SPDX-License-Identifier: Apache-2.0
#include "oracle/qjl64.h"

#include <cmath>
#include <numbers>
#include <numeric>
#include <string>

#include "oracle/grid64.h"

namespace fovea::oracle {
namespace {

std::vector<double> product(const std::vector<double>& matrix, const std::vector<double>& x) {
  const size_t d = x.size();
  std::vector<double> y(d);
  for (size_t i = 0; i < d; ++i)
    y[i] = std::inner_product(x.begin(), x.end(), matrix.begin() + static_cast<std::ptrdiff_t>(i * d), 0.0);
  return y;
}

// One bit: the mean magnitude, with each element's sign. It is the best scale for these codes.
std::vector<double> signs_of(const std::vector<double>& rotation, const std::vector<double>& x) {
  const size_t d = x.size();
  const std::vector<double> y = product(rotation, x);
  double mean = 0;
  for (const double v : y) mean += std::abs(v) / static_cast<double>(d);
  std::vector<double> out(d);
  for (size_t i = 0; i < d; ++i) {
    for (size_t j = 0; j < d; ++j) out[j] += rotation[i * d + j] * (y[i] < 0 ? -mean : mean);
  }
  return out;
}

// Grids have the scale for unbiased products; here it is that of least squares, as the algorithm has it.
std::vector<double> coarse_code(int bits, const std::vector<double>& rotation, const std::vector<double>& x) {
  if (bits == 1) return signs_of(rotation, x);
  const std::string grid = "q" + std::to_string(bits);
  std::vector<double> out = decode(grid, rotation, encode(grid, rotation, x));
  const double along = std::inner_product(x.begin(), x.end(), out.begin(), 0.0);
  const double power = std::inner_product(out.begin(), out.end(), out.begin(), 0.0);
  for (double& v : out) v *= along / power;
  return out;
}

}  // namespace

QjlCode qjl_encode(int bits, const std::vector<double>& rotation, const std::vector<double>& projection,
                   const std::vector<double>& x) {
  QjlCode code{coarse_code(bits - 1, rotation, x), {}, 0};
  std::vector<double> residual(x.size());
  for (size_t i = 0; i < x.size(); ++i) residual[i] = x[i] - code.coarse[i];
  code.residual_norm = std::sqrt(std::inner_product(residual.begin(), residual.end(), residual.begin(), 0.0));
  code.signs = product(projection, residual);
  for (double& s : code.signs) s = s < 0 ? -1 : 1;
  return code;
}

double qjl_product(const QjlCode& code, const std::vector<double>& projection, const std::vector<double>& y) {
  const std::vector<double> projected = product(projection, y);
  const double coarse = std::inner_product(y.begin(), y.end(), code.coarse.begin(), 0.0);
  const double fine = std::inner_product(projected.begin(), projected.end(), code.signs.begin(), 0.0);
  return coarse + std::sqrt(std::numbers::pi / 2) / static_cast<double>(y.size()) * code.residual_norm * fine;
}

}  // namespace fovea::oracle
