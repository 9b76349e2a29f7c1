// SPDX-License-Identifier: Apache-2.0
// How a rotated vector becomes codes and one scale, the same bits on every backend: sums are 32 lanes and a tree,
// nothing is contracted, quotients and roots are correctly rounded. Freestanding. docs/kv-formats.md
#pragma once

#include "shared/convert.h"
#include "shared/exact.h"
#include "shared/kv/grid.h"

namespace fovea {

// The steps that are tried. Sign and magnitude: times the root mean square of the vector; the factors over the
// deviation of the Gaussian that the magnitudes are made for. q6, q5 and i8: times the largest magnitude.
struct StepFactors {
  int count;
  float factors[8];
};

namespace detail {
constexpr StepFactors factors_over(double deviation) {
  StepFactors f{8, {}};
  constexpr double kFactors[] = {0.80, 0.86, 0.92, 0.98, 1.04, 1.10, 1.16, 1.22};
  for (int i = 0; i < 8; ++i) f.factors[i] = static_cast<float>(kFactors[i] / deviation);
  return f;
}
constexpr StepFactors factors_to(int levels_of_a_sign) {
  StepFactors f{8, {}};
  constexpr double kFactors[] = {0.80, 0.84, 0.87, 0.91, 0.94, 0.98, 1.01, 1.05};
  for (int i = 0; i < 8; ++i) f.factors[i] = static_cast<float>(kFactors[i] / levels_of_a_sign);
  return f;
}
// The sum of term(i) over i < n: lane i % 32 adds its terms in turn, then lanes meet 16, 8, 4, 2, 1 apart.
template <class Term>
inline float sum_in_lanes(int n, const Term& term) {
  float lanes[32] = {};
  for (int i = 0; i < n; ++i) lanes[i % 32] = add_rn(lanes[i % 32], term(i));
  for (int apart = 16; apart > 0; apart /= 2) {
    for (int i = 0; i < apart; ++i) lanes[i] = add_rn(lanes[i], lanes[i + apart]);
  }
  return lanes[0];
}
}  // namespace detail

inline constexpr StepFactors kStepFactors[kGrids] = {
    {1, {static_cast<float>(1.0 / 127)}}, detail::factors_to(32),       detail::factors_to(16),
    detail::factors_over(1.0914),         detail::factors_over(1.5052), detail::factors_over(1.6551)};

// The power of two that brings the largest magnitude (as bits, finite, not 0) to about 1, so that squares neither
// overflow nor vanish, and its inverse.
struct GridPower {
  float down;
  float up;
};
constexpr GridPower grid_power(u32_t most) {
  int exponent = static_cast<int>(most >> 23) - 127;
  exponent = exponent < -126 ? -126 : exponent > 126 ? 126 : exponent;
  return {float_of_bits(static_cast<u32_t>(127 - exponent) << 23),
          float_of_bits(static_cast<u32_t>(127 + exponent) << 23)};
}

// What step factors multiply. power: the sum of squares after `down`.
inline float grid_step_base(Grid g, float power, int d, u32_t most, const GridPower& p) {
  return grid_has_signs(g) ? sqrt_rn(div_rn(power, static_cast<float>(d))) : mul_rn(float_of_bits(most), p.down);
}

// The scale under which R^T level has x's own length along x. along: sum of y * level after `down`, in whole levels.
inline float grid_scale(Grid g, float power, float along, int d, const GridPower& p) {
  const float scale =
      div_rn(mul_rn(power, static_cast<float>(grid_row(g).per_unit)), mul_rn(along, sqrt_rn(static_cast<float>(d))));
  return mul_rn(scale, p.up);
}

// y: H D x as rotate leaves it. Codes: one of each element. Returns the scale, with which products with x itself are
// right; 0, with codes of 0, for a vector of zeros and for one with NaN or infinity, where `finite` is false.
inline float encode_vector(Grid g, const float* y, int d, u8_t* codes, bool& finite) {
  u32_t most = 0;  // as bits: NaN and infinity are above every number
  for (int i = 0; i < d; ++i) {
    const u32_t magnitude = bits_of_float(y[i]) & 0x7FFFFFFFu;
    most = magnitude > most ? magnitude : most;
  }
  finite = most < 0x7F800000u;
  for (int i = 0; i < d; ++i) codes[i] = 0;
  if (most == 0 || !finite) return 0;
  const GridPower power_of_two = grid_power(most);
  const auto part = [&](int i) { return mul_rn(y[i], power_of_two.down); };
  const float power = detail::sum_in_lanes(d, [&](int i) { return mul_rn(part(i), part(i)); });
  const float base = grid_step_base(g, power, d, most, power_of_two);
  const StepFactors& steps = kStepFactors[static_cast<int>(g)];
  float best = -1, best_along = 1, best_inverse = 1;
  for (int k = 0; k < steps.count; ++k) {
    const float inverse = div_rn(1.0f, mul_rn(base, steps.factors[k]));
    const auto level = [&](int i) { return grid_level(g, grid_code(g, mul_rn(part(i), inverse))); };
    int squares = 0;
    for (int i = 0; i < d; ++i) squares += level(i) * level(i);
    const float along = detail::sum_in_lanes(d, [&](int i) { return mul_rn(part(i), static_cast<float>(level(i))); });
    const float gain = div_rn(mul_rn(along, along), static_cast<float>(squares));  // what is left falls as it grows
    if (gain > best) best = gain, best_along = along, best_inverse = inverse;
  }
  for (int i = 0; i < d; ++i) codes[i] = static_cast<u8_t>(grid_code(g, mul_rn(part(i), best_inverse)));
  return grid_scale(g, power, best_along, d, power_of_two);
}

// The scale as 16 bits, after `prescale` (a power of two) is taken out of it: to nearest, cut off at the largest
// number.
inline u16_t stored_scale(float scale, float prescale) {
  const u16_t h = f32_to_f16(div_rn(scale, prescale));
  return h > 0x7BFF ? u16_t{0x7BFF} : h;
}

// The same as f32.
inline float stored_scale_f32(float scale, float prescale) {
  const float stored = div_rn(scale, prescale);
  return stored <= 0x1.FFFFFEp127f ? stored : 0x1.FFFFFEp127f;
}

}  // namespace fovea
