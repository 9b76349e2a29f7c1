// SPDX-License-Identifier: Apache-2.0
// Scalar conversions between f32 and the narrow floats, to nearest even, with the same bits on every backend.
// Freestanding: no library calls, no tables.
#pragma once

// Of functions that a device rarely calls: one copy, not one at every call.
#if defined(__CUDACC_RTC__)
#define FOVEA_COLD __noinline__
#else
#define FOVEA_COLD
#endif

namespace fovea {

using u8_t = unsigned char;
using u16_t = unsigned short;
using u32_t = unsigned int;
using i32_t = int;
using u64_t = unsigned long long;
using i64_t = long long;
static_assert(sizeof(u16_t) == 2 && sizeof(u32_t) == 4 && sizeof(u64_t) == 8);

constexpr float float_of_bits(u32_t bits) {
  return __builtin_bit_cast(float, bits);
}
constexpr u32_t bits_of_float(float x) {
  return __builtin_bit_cast(u32_t, x);
}

// A little-endian 16-bit word at any address.
constexpr u16_t u16_at(const u8_t* p) {
  return static_cast<u16_t>(p[0] | p[1] << 8);
}

constexpr float bf16_to_f32(u16_t h) {
  return float_of_bits(static_cast<u32_t>(h) << 16);
}

constexpr u16_t f32_to_bf16(float x) {
  const u32_t b = bits_of_float(x);
  if ((b & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<u16_t>((b >> 16) | 0x40u);
  return static_cast<u16_t>((b + 0x7FFFu + ((b >> 16) & 1u)) >> 16);
}

constexpr float f16_to_f32(u16_t h) {
  const u32_t sign = static_cast<u32_t>(h & 0x8000u) << 16;
  const u32_t magnitude = h & 0x7FFFu;
  if (magnitude >= 0x7C00u) return float_of_bits(sign | 0x7F800000u | ((magnitude & 0x3FFu) << 13));
  // As if the exponent had bias 127, then times 2^112: exact, subnormals included.
  return float_of_bits(sign | bits_of_float(float_of_bits(magnitude << 13) * 0x1p112f));
}

constexpr u16_t f32_to_f16(float x) {
  const u32_t b = bits_of_float(x);
  const u32_t sign = (b >> 16) & 0x8000u;
  const u32_t a = b & 0x7FFFFFFFu;
  if (a > 0x7F800000u) return static_cast<u16_t>(sign | 0x7E00u | ((a >> 13) & 0x3FFu));
  if (a >= 0x477FF000u) return static_cast<u16_t>(sign | 0x7C00u);  // rounds to infinity
  if (a < 0x38800000u) {                                            // subnormal: the sum rounds at bit 2^-24
    const float shifted = float_of_bits(a) + 0.5f;
    return static_cast<u16_t>(sign | (bits_of_float(shifted) - 0x3F000000u));
  }
  return static_cast<u16_t>(sign | ((a - 0x38000000u + 0xFFFu + ((a >> 13) & 1u)) >> 13));
}

constexpr float e4m3_to_f32(u8_t e) {
  const u32_t sign = static_cast<u32_t>(e & 0x80u) << 24;
  const u32_t magnitude = e & 0x7Fu;
  if (magnitude == 0x7Fu) return float_of_bits(sign | 0x7FC00000u);
  return float_of_bits(sign | bits_of_float(float_of_bits(magnitude << 20) * 0x1p120f));
}

// Saturates at 448, infinities included; NaN stays NaN.
constexpr u8_t f32_to_e4m3(float x) {
  const u32_t b = bits_of_float(x);
  const u32_t sign = (b >> 24) & 0x80u;
  const u32_t a = b & 0x7FFFFFFFu;
  if (a > 0x7F800000u) return static_cast<u8_t>(sign | 0x7Fu);
  if (a >= 0x43E00000u) return static_cast<u8_t>(sign | 0x7Eu);  // 448 and above
  if (a < 0x3C800000u) {                                         // below 2^-6: the sum rounds at bit 2^-9
    const float shifted = float_of_bits(a) + 16384.0f;
    return static_cast<u8_t>(sign | (bits_of_float(shifted) - 0x46800000u));
  }
  return static_cast<u8_t>(sign | ((a - 0x3C000000u + 0x7FFFFu + ((a >> 20) & 1u)) >> 20));
}

}  // namespace fovea
