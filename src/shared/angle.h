// SPDX-License-Identifier: Apache-2.0
// cos and sin of a rotary angle: the steps and constants that give every backend the same bits. Freestanding.
//
// The angle less the nearest multiple of pi / 2 (a two-part constant: exact to 2^-53 of the angle), then a polynomial.
// Error before the final rounding to f32: below 1e-11 plus 2^-51 of the angle, 5e-10 at position 10^6.
#pragma once

#include "shared/convert.h"
#include "shared/exact.h"

namespace fovea {

// Of z = r^2: sin(r) = r * sum kSin[i] z^i, cos(r) = sum kCos[i] z^i, by Horner's rule from the last term.
struct AnglePolynomials {
  double sin[6] = {1.0, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800};
  double cos[7] = {1.0, -1.0 / 2, 1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800, 1.0 / 479001600};
  double two_over_pi = 0x1.45f306dc9c883p-1;
  double high_half_pi = 0x1.921fb544p+0, low_half_pi = 0x1.0b4611a626331p-34;  // their sum is pi / 2
  double nearest = 0x1.8p52;  // adding it leaves the nearest integer in the low bits of the sum
};

template <int n>
inline double angle_polynomial(double z, const double (&coefficients)[n]) {
  double sum = coefficients[n - 1];
  for (int i = n - 1; i-- > 0;) sum = add_rn(mul_rn(sum, z), coefficients[i]);
  return sum;
}

// angle: not negative, below 2^50. The vector form of the same steps is backend/cpu/kernels/rope-inl.h.
inline void cos_sin(double angle, double& cos, double& sin) {
  constexpr AnglePolynomials p;
  const double shifted = add_rn(mul_rn(angle, p.two_over_pi), p.nearest);
  const double turns = sub_rn(shifted, p.nearest);  // quarter turns
  const double high = sub_rn(angle, mul_rn(turns, p.high_half_pi));
  const double r = sub_rn(high, mul_rn(turns, p.low_half_pi));
  const double z = mul_rn(r, r);
  const double s = mul_rn(r, angle_polynomial(z, p.sin)), c = angle_polynomial(z, p.cos);
  const u64_t quarter = __builtin_bit_cast(u64_t, shifted);
  const bool odd = quarter & 1;
  const u64_t sin_sign = (quarter & 2) << 62, cos_sign = ((quarter + 1) & 2) << 62;
  sin = __builtin_bit_cast(double, __builtin_bit_cast(u64_t, odd ? c : s) ^ sin_sign);
  cos = __builtin_bit_cast(double, __builtin_bit_cast(u64_t, odd ? s : c) ^ cos_sign);
}

// What a pair is turned by: inv_freq in radians per position, amplitude on both.
inline void rotary_cos_sin(i64_t position, double inv_freq, double amplitude, float& cos, float& sin) {
  double c, s;
  cos_sin(mul_rn(static_cast<double>(position), inv_freq), c, s);
  cos = static_cast<float>(mul_rn(c, amplitude));
  sin = static_cast<float>(mul_rn(s, amplitude));
}

}  // namespace fovea
