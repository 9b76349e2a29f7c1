// SPDX-License-Identifier: Apache-2.0
// The rotation of one token, for rope and kv_append. Included once per Highway target.
//
//   angle[i] = position * inv_freq[i]                   f64
//   (a, b)   = (a cos - b sin, b cos + a sin)           f32, each product and sum rounded once: the same bits on every
//                                                       instruction set
//   NeoX: a, b = x[i], x[i + rotary_dim / 2]            GPT-J: a, b = x[2 i], x[2 i + 1]
//
// cos and sin are those of shared/angle.h.
#if defined(FOVEA_CPU_ROPE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_CPU_ROPE_INL_H_
#undef FOVEA_CPU_ROPE_INL_H_
#else
#define FOVEA_CPU_ROPE_INL_H_
#endif

#include "backend/cpu/kernels/convert-inl.h"
#include "shared/angle.h"
#include "shared/rope.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::cpu {
namespace HWY_NAMESPACE {

using F64Tag = hn::ScalableTag<double>;
using F64Vec = hn::Vec<F64Tag>;

// cos and sin of one token in the order its style reads them. NeoX: [rotary_dim / 2] each. GPT-J: [rotary_dim], each
// cos twice, each sin as -sin, sin.
struct TokenAngles {
  float cos[kMaxRotaryDim];
  float sin[kMaxRotaryDim];
};

template <size_t n>
HWY_INLINE F64Vec Polynomial(F64Tag d, F64Vec z, const double (&coefficients)[n]) {
  F64Vec sum = hn::Set(d, coefficients[n - 1]);
  for (size_t i = n - 1; i-- > 0;) sum = hn::Add(hn::Mul(sum, z), hn::Set(d, coefficients[i]));
  return sum;
}

// cos_sin of shared/angle.h, step by step.
HWY_INLINE void SinCos(F64Tag d, F64Vec angle, F64Vec& sin, F64Vec& cos) {
  const hn::RebindToUnsigned<F64Tag> du;
  static constexpr AnglePolynomials p;
  const F64Vec nearest = hn::Set(d, p.nearest);
  const F64Vec shifted = hn::Add(hn::Mul(angle, hn::Set(d, p.two_over_pi)), nearest);
  const F64Vec turns = hn::Sub(shifted, nearest);
  const F64Vec high = hn::Sub(angle, hn::Mul(turns, hn::Set(d, p.high_half_pi)));
  const F64Vec r = hn::Sub(high, hn::Mul(turns, hn::Set(d, p.low_half_pi)));
  const F64Vec z = hn::Mul(r, r);
  const F64Vec s = hn::Mul(r, Polynomial(d, z, p.sin)), c = Polynomial(d, z, p.cos);
  const auto quarter = hn::BitCast(du, shifted);
  const auto odd = hn::RebindMask(d, hn::TestBit(quarter, hn::Set(du, 1u)));
  const auto two = hn::Set(du, 2u);
  const auto sin_sign = hn::ShiftLeft<62>(hn::And(quarter, two));
  const auto cos_sign = hn::ShiftLeft<62>(hn::And(hn::Add(quarter, hn::Set(du, 1u)), two));
  sin = hn::Xor(hn::IfThenElse(odd, c, s), hn::BitCast(d, sin_sign));
  cos = hn::Xor(hn::IfThenElse(odd, s, c), hn::BitCast(d, cos_sign));
}

HWY_INLINE void ComputeAngles(const RotarySpec& spec, const RotaryTable& table, const RotaryInput& in, i64_t token,
                              TokenAngles& out) {
  const F64Tag d;
  const hn::Rebind<float, F64Tag> df;
  const int pairs = spec.rotary_dim / 2, step = static_cast<int>(hn::Lanes(d));
  static_assert(kMaxRotaryPairs % 8 == 0, "whole vectors of f64 fit the arrays");
  double position[kMaxPositionRows];
  for (int r = 0; r < spec.position_rows; ++r) position[r] = static_cast<double>(index_at(in.positions, r, token));
  for (int i = 0; i < pairs; i += step) {
    F64Vec p = hn::Set(d, position[0]);
    if (spec.position_rows > 1) {
      HWY_ALIGN double lanes[hn::MaxLanes(d)];
      for (int k = 0; k < step; ++k) lanes[k] = position[table.position_row[i + k]];
      p = hn::Load(d, lanes);
    }
    F64Vec sin, cos;
    SinCos(d, hn::Mul(p, hn::LoadU(d, table.inv_freq + i)), sin, cos);
    const F64Vec amplitude = hn::Set(d, table.amplitude);
    hn::StoreU(hn::DemoteTo(df, hn::Mul(cos, amplitude)), df, out.cos + i);
    hn::StoreU(hn::DemoteTo(df, hn::Mul(sin, amplitude)), df, out.sin + i);
  }
}

HWY_INLINE void ReadAngles(const RotarySpec& spec, const RotaryTable& table, const RotaryInput& in, i64_t token,
                           TokenAngles& out) {
  const char* cos[kMaxPositionRows];
  const char* sin[kMaxPositionRows];
  for (int r = 0; r < spec.position_rows; ++r) {
    const i64_t position = index_at(in.positions, r, token);
    cos[r] = row(in.cos, position);
    sin[r] = row(in.sin, position);
  }
  for (int i = 0; i < spec.rotary_dim / 2; ++i) {
    const int r = table.position_row[i];
    out.cos[i] = float_at(cos[r] + i * 4, Dtype::f32);
    out.sin[i] = float_at(sin[r] + i * 4, Dtype::f32);
  }
}

HWY_INLINE void TokenRotation(const RotarySpec& spec, const RotaryTable& table, const RotaryInput& in, i64_t token,
                              TokenAngles& out) {
  if (spec.given_tables) {
    ReadAngles(spec, table, in, token, out);
  } else {
    ComputeAngles(spec, table, in, token, out);
  }
  if (spec.style == RopeStyle::neox) return;
  for (int i = spec.rotary_dim / 2; i-- > 0;) {
    const float sin = out.sin[i];
    out.cos[2 * i + 1] = out.cos[2 * i] = out.cos[i];
    out.sin[2 * i + 1] = sin;
    out.sin[2 * i] = -sin;
  }
}

// x: the first rotary_dim dims of one head, in place.
HWY_INLINE void Rotate(const RotarySpec& spec, const TokenAngles& angles, float* x) {
  const F32Tag d;
  const int step = static_cast<int>(hn::Lanes(d));
  const int n = spec.rotary_dim;
  int i = 0;
  if (spec.style == RopeStyle::gptj) {
    for (; i + step <= n; i += step) {
      const F32Vec v = hn::LoadU(d, x + i);
      const F32Vec straight = hn::Mul(v, hn::LoadU(d, angles.cos + i));
      hn::StoreU(hn::Add(straight, hn::Mul(hn::Reverse2(d, v), hn::LoadU(d, angles.sin + i))), d, x + i);
    }
    for (; i < n; i += 2) {
      const float a = x[i], b = x[i + 1], cos = angles.cos[i], sin = angles.sin[i + 1];
      x[i] = a * cos - b * sin;
      x[i + 1] = b * cos + a * sin;
    }
    return;
  }
  const int half = n / 2;
  for (; i + step <= half; i += step) {
    const F32Vec a = hn::LoadU(d, x + i), b = hn::LoadU(d, x + half + i);
    const F32Vec cos = hn::LoadU(d, angles.cos + i), sin = hn::LoadU(d, angles.sin + i);
    hn::StoreU(hn::Sub(hn::Mul(a, cos), hn::Mul(b, sin)), d, x + i);
    hn::StoreU(hn::Add(hn::Mul(b, cos), hn::Mul(a, sin)), d, x + half + i);
  }
  for (; i < half; ++i) {
    const float a = x[i], b = x[half + i], cos = angles.cos[i], sin = angles.sin[i];
    x[i] = a * cos - b * sin;
    x[half + i] = b * cos + a * sin;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::cpu
HWY_AFTER_NAMESPACE();

#endif
