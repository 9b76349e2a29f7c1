// SPDX-License-Identifier: Apache-2.0
#include "oracle/matmul64.h"

#include <cmath>

#include "fovea/fovea.h"
#include "oracle/numbers.h"

namespace fovea::oracle {

double weight64(int32_t dtype, const void* row, int64_t k) {
  const auto* bytes = static_cast<const unsigned char*>(row);
  if (dtype == FOVEA_Q4_1) {  // f16 scale, f16 minimum, 16 bytes: low nibbles first
    const unsigned char* block = bytes + k / 32 * 20;
    const int64_t i = k % 32;
    const int q = i < 16 ? block[4 + i] & 0xF : block[4 + i - 16] >> 4;
    return q * decode(FOVEA_F16, block) + decode(FOVEA_F16, block + 2);
  }
  if (dtype == FOVEA_Q8_0) {  // f16 scale, 32 signed bytes
    const unsigned char* block = bytes + k / 32 * 34;
    const int q = block[2 + k % 32];
    return (q < 128 ? q : q - 256) * decode(FOVEA_F16, block);
  }
  return decode(dtype, bytes + k * bytes_of(dtype));
}

Product matmul64(const std::vector<double>& x, const std::vector<double>& w, const std::vector<double>& bias, int64_t m,
                 int64_t n, int64_t k) {
  Product p;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = bias.empty() ? 0 : bias[static_cast<size_t>(j)], magnitude = std::fabs(sum);
      for (int64_t l = 0; l < k; ++l) {
        const double term = x[static_cast<size_t>(i * k + l)] * w[static_cast<size_t>(j * k + l)];
        sum += term;
        magnitude += std::fabs(term);
      }
      p.out.push_back(sum);
      p.magnitude.push_back(magnitude);
    }
  }
  return p;
}

}  // namespace fovea::oracle
