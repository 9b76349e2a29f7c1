// SPDX-License-Identifier: Apache-2.0
// Matrices in the types of the tensor cores, and their products in double.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "shared/convert.h"

namespace fovea::cuda {

enum class Type { f16, bf16, e4m3, e5m2, s8, u8 };

inline int bytes_of(Type type) {
  return type == Type::f16 || type == Type::bf16 ? 2 : 1;
}
inline bool is_integer(Type type) {
  return type == Type::s8 || type == Type::u8;
}
inline double decode(Type type, const u8_t* p) {
  switch (type) {
    case Type::f16:
      return f16_to_f32(u16_at(p));
    case Type::bf16:
      return bf16_to_f32(u16_at(p));
    case Type::e4m3:
      return e4m3_to_f32(*p);
    case Type::e5m2:
      return f16_to_f32(static_cast<u16_t>(*p << 8));
    case Type::s8:
      return static_cast<int8_t>(*p);
    case Type::u8:
      return *p;
  }
  return 0;
}
inline void encode(Type type, float x, u8_t* p) {
  u16_t word = 0;
  switch (type) {
    case Type::f16:
      word = f32_to_f16(x);
      break;
    case Type::bf16:
      word = f32_to_bf16(x);
      break;
    case Type::e4m3:
      word = f32_to_e4m3(x);
      break;
    case Type::e5m2:
      word = static_cast<u16_t>(f32_to_f16(x) >> 8);
      break;
    case Type::s8:
    case Type::u8:
      word = static_cast<u16_t>(static_cast<int>(x) & 0xFF);
      break;
  }
  std::memcpy(p, &word, static_cast<size_t>(bytes_of(type)));
}

// A matrix of rows x columns, row major.
struct Matrix {
  Type type;
  int rows, columns;
  std::vector<u8_t> data;
  Matrix(Type of, int r, int c) : type(of), rows(r), columns(c), data(static_cast<size_t>(r * c * bytes_of(of))) {}
  u8_t* at(int r, int c) { return &data[static_cast<size_t>((r * columns + c) * bytes_of(type))]; }
  const u8_t* at(int r, int c) const { return &data[static_cast<size_t>((r * columns + c) * bytes_of(type))]; }
  double value(int r, int c) const { return decode(type, at(r, c)); }
};

// Small integers, whose products and sums are exact in every accumulator; or numbers of seven magnitudes.
enum class Fill { exact, random };

inline void fill(Matrix& m, Fill kind, std::mt19937& random) {
  std::uniform_real_distribution<float> unit(-1, 1);
  for (int r = 0; r < m.rows; ++r) {
    for (int c = 0; c < m.columns; ++c) {
      float x = 0;
      if (is_integer(m.type)) {
        x = static_cast<float>(static_cast<int>(random() % 256) - (m.type == Type::s8 ? 128 : 0));
      } else if (kind == Fill::exact) {
        x = static_cast<float>(static_cast<int>(random() % 17) - 8);
      } else {
        x = std::ldexp(unit(random), static_cast<int>(random() % 7) - 3);
      }
      encode(m.type, x, m.at(r, c));
    }
  }
}

// sum over k of a[m][k] b[n][k], and the largest magnitude among the addends.
struct Sum {
  double value = 0;
  double largest = 0;
};
inline Sum product_at(const Matrix& a, const Matrix& b, int m, int n) {
  Sum sum;
  for (int k = 0; k < a.columns; ++k) {
    const double p = a.value(m, k) * b.value(n, k);
    sum.value += p;
    sum.largest = std::fmax(sum.largest, std::fabs(p));
  }
  return sum;
}

// What an accumulator of so many bits may be off by: each of the k + 1 addends is cut off at the last bit of the
// largest, and the sum is rounded.
inline double sum_bound(const Sum& sum, double c, int k, int bits) {
  return std::ldexp((k + 2) * std::fmax(sum.largest, std::fabs(c)), -bits);
}
// The bits of f32, but for two that truncation may cost. The units of fp8 (QMMA and QGMMA) keep fewer; where the
// compiler makes products of f16 of them, they are as f16.
inline int sum_bits(Type type, bool fp8_unit) {
  return bytes_of(type) == 1 && fp8_unit ? 12 : 22;
}

}  // namespace fovea::cuda
