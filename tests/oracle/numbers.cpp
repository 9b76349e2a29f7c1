// SPDX-License-Identifier: Apache-2.0
#include "oracle/numbers.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <vector>

namespace fovea::oracle {
namespace {

struct Format {
  int exponent_bits;
  int mantissa_bits;
  bool ieee;  // false: no infinity, the all-ones pattern alone is NaN, casts saturate (e4m3fn)

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  int min_exponent() const { return 1 - bias(); }
  uint32_t sign() const { return 1u << (exponent_bits + mantissa_bits); }
  uint32_t nan() const { return ieee ? infinity() | (1u << (mantissa_bits - 1)) : sign() - 1; }
  uint32_t infinity() const { return sign() - (1u << mantissa_bits); }
  uint32_t largest() const { return ieee ? infinity() - 1 : nan() - 1; }
};

Format format(int32_t dtype) {
  switch (dtype) {
    case FOVEA_F32:
      return {8, 23, true};
    case FOVEA_F16:
      return {5, 10, true};
    case FOVEA_BF16:
      return {8, 7, true};
    case FOVEA_E4M3:
      return {4, 3, false};
    default:
      throw std::invalid_argument("not a floating-point type");
  }
}

double decode_bits(const Format& f, uint32_t bits) {
  const uint32_t magnitude = bits & (f.sign() - 1);
  const double s = (bits & f.sign()) ? -1.0 : 1.0;
  if (f.ieee ? magnitude > f.infinity() : magnitude == f.nan()) return std::numeric_limits<double>::quiet_NaN();
  if (f.ieee && magnitude == f.infinity()) return s * std::numeric_limits<double>::infinity();
  const int exponent = static_cast<int>(magnitude >> f.mantissa_bits);
  const uint32_t mantissa = magnitude & ((1u << f.mantissa_bits) - 1);
  const double m = exponent == 0 ? mantissa : mantissa + std::ldexp(1.0, f.mantissa_bits);
  return s * std::ldexp(m, (exponent == 0 ? 1 : exponent) - f.bias() - f.mantissa_bits);
}

uint32_t encode_bits(const Format& f, double x) {
  const uint32_t s = std::signbit(x) ? f.sign() : 0;
  if (std::isnan(x)) return s | f.nan();
  const uint32_t overflow = f.ieee ? f.infinity() : f.largest();
  const double a = std::fabs(x);
  if (std::isinf(a)) return s | overflow;
  if (a == 0) return s;
  int e = std::ilogb(a);
  if (e < f.min_exponent()) e = f.min_exponent();
  // Whole quanta of the binade; a power of two divides exactly, so only this rounds. A carry moves into the exponent.
  const double quanta = std::nearbyint(std::ldexp(a, f.mantissa_bits - e));
  const int64_t bits = (static_cast<int64_t>(e + f.bias() - 1) << f.mantissa_bits) + static_cast<int64_t>(quanta);
  return s | (bits > static_cast<int64_t>(f.largest()) ? overflow : static_cast<uint32_t>(bits));
}

}  // namespace

int64_t bytes_of(int32_t dtype) {
  switch (dtype) {
    case FOVEA_E4M3:
    case FOVEA_U8:
      return 1;
    case FOVEA_F16:
    case FOVEA_BF16:
      return 2;
    case FOVEA_F32:
    case FOVEA_I32:
    case FOVEA_U32:
      return 4;
    case FOVEA_I64:
    case FOVEA_U64:
      return 8;
    default:
      throw std::invalid_argument("not an element type");
  }
}

namespace {
template <class T>
T load(const void* at) {
  T x;
  std::memcpy(&x, at, sizeof x);
  return x;
}
template <class T>
void store(void* at, T x) {
  std::memcpy(at, &x, sizeof x);
}

// Every value of a 16-bit type, so that decoding large caches costs a load.
double decode_half(int32_t dtype, uint16_t bits) {
  const auto table = [](int32_t type) {
    std::vector<double> values(65536);
    for (uint32_t i = 0; i < values.size(); ++i) values[i] = decode_bits(format(type), i);
    return values;
  };
  static const std::vector<double> f16 = table(FOVEA_F16), bf16 = table(FOVEA_BF16);
  return dtype == FOVEA_F16 ? f16[bits] : bf16[bits];
}
}  // namespace

double decode(int32_t dtype, const void* at) {
  switch (dtype) {
    case FOVEA_U8:
      return load<uint8_t>(at);
    case FOVEA_I32:
      return load<int32_t>(at);
    case FOVEA_U32:
      return load<uint32_t>(at);
    case FOVEA_I64:
      return static_cast<double>(load<int64_t>(at));
    case FOVEA_U64:
      return static_cast<double>(load<uint64_t>(at));
    case FOVEA_F32:
      return load<float>(at);
    case FOVEA_E4M3:
      return decode_bits(format(dtype), load<uint8_t>(at));
    default:
      return decode_half(dtype, load<uint16_t>(at));
  }
}

void encode(int32_t dtype, void* at, double x) {
  switch (dtype) {
    case FOVEA_U8:
      return store(at, static_cast<uint8_t>(x));
    case FOVEA_I32:
      return store(at, static_cast<int32_t>(x));
    case FOVEA_U32:
      return store(at, static_cast<uint32_t>(x));
    case FOVEA_I64:
      return store(at, static_cast<int64_t>(x));
    case FOVEA_U64:
      return store(at, static_cast<uint64_t>(x));
    case FOVEA_F32:
      return store(at, encode_bits(format(dtype), x));
    case FOVEA_E4M3:
      return store(at, static_cast<uint8_t>(encode_bits(format(dtype), x)));
    default:
      return store(at, static_cast<uint16_t>(encode_bits(format(dtype), x)));
  }
}

double round_to(int32_t dtype, double x) {
  if (dtype == FOVEA_F32) return static_cast<float>(x);
  const Format f = format(dtype);
  return decode_bits(f, encode_bits(f, x));
}

double ulp(int32_t dtype, double x) {
  const Format f = format(dtype);
  const double a = std::fabs(x);
  const int e = a > 0 && std::isfinite(a) ? std::max(std::ilogb(a), f.min_exponent()) : f.min_exponent();
  return std::ldexp(1.0, e - f.mantissa_bits);
}

double largest(int32_t dtype) {
  return decode_bits(format(dtype), format(dtype).largest());
}
double smallest_normal(int32_t dtype) {
  return std::ldexp(1.0, format(dtype).min_exponent());
}
double smallest_subnormal(int32_t dtype) {
  return decode_bits(format(dtype), 1);
}

}  // namespace fovea::oracle
