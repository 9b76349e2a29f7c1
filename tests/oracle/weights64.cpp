// SPDX-License-Identifier: Apache-2.0
// Each decoder writes a whole block in the order of its bytes, and knows nothing of the others.
#include "oracle/weights64.h"

#include <cmath>
#include <stdexcept>

#include "fovea/fovea.h"
#include "oracle/numbers.h"

namespace fovea::oracle {
namespace {

using Bytes = const unsigned char*;

double half(Bytes p) {
  return decode(FOVEA_F16, p);
}
int signed_byte(int byte) {
  return byte < 128 ? byte : byte - 256;
}

// 16 bytes of codes: low nibbles are the first half of the block.
void nibbles(Bytes p, int* q) {
  for (int i = 0; i < 16; ++i) {
    q[i] = p[i] % 16;
    q[i + 16] = p[i] / 16;
  }
}
void fifth_bits(Bytes p, int* q) {
  const uint32_t word = p[0] + 256u * p[1] + 65536u * p[2] + 16777216u * p[3];
  for (int i = 0; i < 32; ++i) q[i] += (word >> i) % 2 ? 16 : 0;
}

// q4_0, q4_1, q5_0, q5_1, q8_0, iq4_nl, mxfp4: 32 weights.
void block_of_32(int32_t dtype, Bytes p, double* w) {
  int q[32] = {};
  double scale = 0, minimum = 0;
  int zero = 0;
  if (dtype == FOVEA_Q8_0) {
    scale = half(p);
    for (int i = 0; i < 32; ++i) q[i] = signed_byte(p[2 + i]);
  } else if (dtype == FOVEA_Q4_0) {
    scale = half(p);
    nibbles(p + 2, q);
    zero = 8;
  } else if (dtype == FOVEA_Q4_1) {
    scale = half(p);
    minimum = half(p + 2);
    nibbles(p + 4, q);
  } else if (dtype == FOVEA_Q5_0) {
    scale = half(p);
    nibbles(p + 6, q);
    fifth_bits(p + 2, q);
    zero = 16;
  } else if (dtype == FOVEA_Q5_1) {
    scale = half(p);
    minimum = half(p + 2);
    nibbles(p + 8, q);
    fifth_bits(p + 4, q);
  } else if (dtype == FOVEA_IQ4_NL) {
    const int values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    scale = half(p);
    nibbles(p + 2, q);
    for (int& code : q) code = values[code];
  } else {  // mxfp4: sign, two bits of exponent, one of mantissa; one scale 2^(e - 127)
    const double values[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    nibbles(p + 1, q);
    for (int i = 0; i < 32; ++i) w[i] = std::ldexp(q[i] < 8 ? values[q[i]] : -values[q[i] - 8], p[0] - 127);
    return;
  }
  for (int i = 0; i < 32; ++i) w[i] = (q[i] - zero) * scale + minimum;
}

void block_q2_k(Bytes p, double* w) {
  const double d = half(p + 80), dmin = half(p + 82);
  int i = 0;
  for (const int base : {16, 48}) {  // 32 bytes of codes: 128 weights
    for (const int divisor : {1, 4, 16, 64}) {
      for (int byte = 0; byte < 32; ++byte, ++i) {
        const int scales = p[i / 16];
        w[i] = d * (scales % 16) * (p[base + byte] / divisor % 4) - dmin * (scales / 16);
      }
    }
  }
}

void block_q3_k(Bytes p, double* w) {
  int scales[16];
  for (int g = 0; g < 4; ++g) {
    const int high = p[104 + g];
    scales[g] = p[96 + g] % 16 + high % 4 * 16;
    scales[g + 4] = p[100 + g] % 16 + high / 4 % 4 * 16;
    scales[g + 8] = p[96 + g] / 16 + high / 16 % 4 * 16;
    scales[g + 12] = p[100 + g] / 16 + high / 64 * 16;
  }
  const double d = half(p + 108);
  int i = 0;
  for (const int base : {32, 64}) {
    for (const int divisor : {1, 4, 16, 64}) {
      const int bit = 1 << (i / 32);
      for (int byte = 0; byte < 32; ++byte, ++i) {
        const int q = p[base + byte] / divisor % 4 - ((p[byte] & bit) ? 0 : 4);
        w[i] = d * (scales[i / 16] - 32) * q;
      }
    }
  }
}

// 6-bit scales and minimums of q4_k and q5_k.
void scales_and_minimums(Bytes p, int* scale, int* minimum) {
  for (int g = 0; g < 4; ++g) {
    scale[g] = p[g] % 64;
    minimum[g] = p[4 + g] % 64;
    scale[4 + g] = p[8 + g] % 16 + p[g] / 64 * 16;
    minimum[4 + g] = p[8 + g] / 16 + p[4 + g] / 64 * 16;
  }
}

void block_q4_k_or_q5_k(bool fifth, Bytes p, double* w) {
  int scale[8], minimum[8];
  scales_and_minimums(p + 4, scale, minimum);
  const double d = half(p), dmin = half(p + 2);
  const Bytes high = p + 16, codes = fifth ? p + 48 : p + 16;
  for (int g = 0; g < 8; ++g) {
    for (int i = 0; i < 32; ++i) {
      const int byte = codes[g / 2 * 32 + i];
      int q = g % 2 == 0 ? byte % 16 : byte / 16;
      if (fifth && (high[i] & (1 << g))) q += 16;
      w[g * 32 + i] = d * scale[g] * q - dmin * minimum[g];
    }
  }
}

void block_q6_k(Bytes p, double* w) {
  const double d = half(p + 208);
  for (int part = 0; part < 2; ++part) {
    const Bytes low = p + part * 64, high = p + 128 + part * 32;
    for (int i = 0; i < 32; ++i) {
      const int q[4] = {low[i] % 16 + high[i] % 4 * 16, low[i + 32] % 16 + high[i] / 4 % 4 * 16,
                        low[i] / 16 + high[i] / 16 % 4 * 16, low[i + 32] / 16 + high[i] / 64 * 16};
      for (int quarter = 0; quarter < 4; ++quarter) {
        const int at = part * 128 + quarter * 32 + i;
        w[at] = d * signed_byte(p[192 + at / 16]) * (q[quarter] - 32);
      }
    }
  }
}

void decode_block(int32_t dtype, Bytes p, double* w) {
  switch (dtype) {
    case FOVEA_Q2_K:
      return block_q2_k(p, w);
    case FOVEA_Q3_K:
      return block_q3_k(p, w);
    case FOVEA_Q4_K:
    case FOVEA_Q5_K:
      return block_q4_k_or_q5_k(dtype == FOVEA_Q5_K, p, w);
    case FOVEA_Q6_K:
      return block_q6_k(p, w);
    case FOVEA_Q4_0:
    case FOVEA_Q4_1:
    case FOVEA_Q5_0:
    case FOVEA_Q5_1:
    case FOVEA_Q8_0:
    case FOVEA_IQ4_NL:
    case FOVEA_MXFP4:
      return block_of_32(dtype, p, w);
    default:
      throw std::invalid_argument("not a type of weights");
  }
}

struct Size {
  int64_t weights, bytes;
};
Size block_size(int32_t dtype) {
  switch (dtype) {
    case FOVEA_Q4_0:
    case FOVEA_IQ4_NL:
      return {32, 18};
    case FOVEA_Q4_1:
      return {32, 20};
    case FOVEA_Q5_0:
      return {32, 22};
    case FOVEA_Q5_1:
      return {32, 24};
    case FOVEA_Q8_0:
      return {32, 34};
    case FOVEA_MXFP4:
      return {32, 17};
    case FOVEA_Q2_K:
      return {256, 84};
    case FOVEA_Q3_K:
      return {256, 110};
    case FOVEA_Q4_K:
      return {256, 144};
    case FOVEA_Q5_K:
      return {256, 176};
    case FOVEA_Q6_K:
      return {256, 210};
    default:
      return {1, bytes_of(dtype)};
  }
}

}  // namespace

std::vector<double> weights64(int32_t dtype, const void* row, int64_t k) {
  const auto* bytes = static_cast<Bytes>(row);
  const Size size = block_size(dtype);
  std::vector<double> all(static_cast<size_t>(k));
  for (int64_t i = 0; i < k; i += size.weights, bytes += size.bytes) {
    if (size.weights == 1) {
      all[static_cast<size_t>(i)] = decode(dtype, bytes);
    } else {
      decode_block(dtype, bytes, all.data() + i);
    }
  }
  return all;
}

}  // namespace fovea::oracle
