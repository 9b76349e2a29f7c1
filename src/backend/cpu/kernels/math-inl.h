// SPDX-License-Identifier: Apache-2.0
// Exponentials in f32 with errors of a few units in the last place. Included once per Highway target.
//
// Arguments come as hi + lo, since exp turns an absolute error of its argument into a relative one. NaN gives NaN.
#if defined(FOVEA_CPU_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_CPU_MATH_INL_H_
#undef FOVEA_CPU_MATH_INL_H_
#else
#define FOVEA_CPU_MATH_INL_H_
#endif

#include "backend/cpu/kernels/convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::cpu {
namespace HWY_NAMESPACE {

// (exp(r) - 1 - r) / r^2 for |r| <= ln 2 / 2, minimax, lowest power first.
constexpr float kExp[] = {0x1p-1f, 0x1.5554dcp-3f, 0x1.5554e8p-5f, 0x1.120cbep-7f, 0x1.6d44b6p-10f};
// (1 + 2 u) exp(u^2) erfc(u) in t = (u - 3) / (u + 3) for u in [0, 10.2], minimax to 3e-9, lowest power first.
constexpr float kErfc[] = {0x1.40c522p+0f,  -0x1.15c08ap-3f,  -0x1.85a17ep-5f, 0x1.09841ep-3f,
                           -0x1.e88946p-4f, 0x1.17bc18p-4f,   -0x1.85dcfep-6f, 0x1.5124b8p-9f,
                           0x1.0630c8p-9f,  -0x1.9b4144p-11f, -0x1.1c8a5cp-12f};

// The polynomial with coefficients c, lowest power first.
template <size_t kTerms>
HWY_INLINE F32Vec Polynomial(const float (&c)[kTerms], F32Vec x) {
  const F32Tag d;
  F32Vec y = hn::Set(d, c[kTerms - 1]);
#pragma GCC unroll 16
  for (size_t i = 2; i <= kTerms; ++i) y = hn::MulAdd(y, x, hn::Set(d, c[kTerms - i]));
  return y;
}

struct HiLo {
  F32Vec hi, lo;
};

// f(x) computed in f64 and cut into two f32.
template <class Function>
HWY_INLINE HiLo InDouble(F32Vec x, const Function& f) {
  const F32Tag d;
  const hn::Half<F32Tag> half;
  const hn::Repartition<double, F32Tag> dd;
  const auto lower = f(dd, hn::PromoteTo(dd, hn::LowerHalf(half, x)));
  const auto upper = f(dd, hn::PromoteTo(dd, hn::UpperHalf(half, x)));
  const auto lower_hi = hn::DemoteTo(half, lower), upper_hi = hn::DemoteTo(half, upper);
  const auto lower_lo = hn::DemoteTo(half, hn::Sub(lower, hn::PromoteTo(dd, lower_hi)));
  const auto upper_lo = hn::DemoteTo(half, hn::Sub(upper, hn::PromoteTo(dd, upper_hi)));
  return {.hi = hn::Combine(d, upper_hi, lower_hi), .lo = hn::Combine(d, upper_lo, lower_lo)};
}

// x held to [low, high]; NaN stays.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Clamp(D d, V x, hn::TFromD<D> low, hn::TFromD<D> high) {
  const V l = hn::Set(d, low), h = hn::Set(d, high);
  return hn::IfThenElse(hn::Lt(x, l), l, hn::IfThenElse(hn::Gt(x, h), h, x));
}

// exp(hi + lo) = p * s1 * s2 with p in [0.7, 1.42] and powers of two. hi is held to [-174, 100].
struct ExpParts {
  F32Vec p, s1, s2;
};

HWY_INLINE ExpParts ExpOf(F32Vec hi, F32Vec lo) {
  const F32Tag d;
  const hn::RebindToSigned<F32Tag> di;
  hi = Clamp(d, hi, -174.0f, 100.0f);
  const auto k = hn::NearestInt(hn::Mul(hi, hn::Set(d, 1.44269504f)));
  const F32Vec kf = hn::ConvertTo(d, k);
  // ln 2 in two parts; the first has nine bits, so its product with k is exact.
  F32Vec r = hn::NegMulAdd(kf, hn::Set(d, 0x1.63p-1f), hi);
  r = hn::Add(hn::NegMulAdd(kf, hn::Set(d, -2.12194440e-4f), r), lo);
  const F32Vec p = hn::Add(hn::MulAdd(hn::Mul(r, r), Polynomial(kExp, r), r), hn::Set(d, 1.0f));
  const auto k1 = hn::ShiftRight<1>(k), k2 = hn::Sub(k, k1), bias = hn::Set(di, 127);
  return {.p = p,
          .s1 = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(k1, bias))),
          .s2 = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(k2, bias)))};
}

// m / (1 + exp(-z)). The powers of two come last on the small side, so tiny results keep their bits.
HWY_INLINE F32Vec TimesSigmoid(F32Vec m, HiLo z) {
  const F32Tag d;
  const F32Vec zero = hn::Zero(d), one = hn::Set(d, 1.0f);
  const auto negative = hn::Lt(z.hi, zero);
  const ExpParts e =
      ExpOf(hn::IfThenElse(negative, z.hi, hn::Neg(z.hi)), hn::IfThenElse(negative, z.lo, hn::Neg(z.lo)));
  const F32Vec below = hn::Mul(e.p, e.s1);  // exp(-|z|) without s2
  const F32Vec top = hn::IfThenElse(negative, hn::Mul(hn::Mul(m, e.s1), e.p), m);
  const F32Vec y = hn::Div(top, hn::MulAdd(below, e.s2, one));
  // Beyond the clamp of ExpOf the result is less than 2^-120 for every finite m.
  return hn::IfThenZeroElse(hn::Lt(z.hi, hn::Set(d, -174.0f)), hn::Mul(y, hn::IfThenElse(negative, e.s2, one)));
}

HWY_INLINE F32Vec Sigmoid(F32Vec z) {
  return TimesSigmoid(hn::Set(F32Tag(), 1.0f), {.hi = z, .lo = hn::Zero(F32Tag())});
}

HWY_INLINE F32Vec Silu(F32Vec x) {
  return TimesSigmoid(x, {.hi = x, .lo = hn::Zero(F32Tag())});
}

// x Phi(x), Phi the normal distribution: erfc(|x| / sqrt 2) / 2 is the smaller of Phi(x) and 1 - Phi(x).
HWY_INLINE F32Vec Gelu(F32Vec x) {
  const F32Tag d;
  const F32Vec one = hn::Set(d, 1.0f), a = Clamp(d, hn::Abs(x), 0.0f, 20.0f);
  const HiLo z = InDouble(a, [](auto dd, auto v) { return hn::Mul(hn::Mul(v, v), hn::Set(dd, -0.5)); });
  const ExpParts e = ExpOf(z.hi, z.lo);
  const F32Vec u = hn::Mul(a, hn::Set(d, 0.707106781f));
  const F32Vec t = hn::Div(hn::Sub(u, hn::Set(d, 3.0f)), hn::Add(u, hn::Set(d, 3.0f)));
  const F32Vec q = hn::Div(Polynomial(kErfc, t), hn::MulAdd(u, hn::Set(d, 2.0f), one));
  const F32Vec half = hn::Mul(q, hn::Mul(hn::Set(d, 0.5f), e.p));
  const F32Vec upper = hn::Mul(x, hn::Sub(one, hn::Mul(hn::Mul(half, e.s1), e.s2)));
  const F32Vec lower = hn::Mul(hn::Mul(hn::Mul(x, e.s1), half), e.s2);
  const F32Vec y = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), lower, upper);
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -18.0f)), y);
}

// x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, which is x times the sigmoid of twice the argument of tanh.
HWY_INLINE F32Vec GeluTanh(F32Vec x) {
  return TimesSigmoid(x, InDouble(x, [](auto dd, auto v) {
                        const auto s = hn::Mul(v, v);
                        const auto c = hn::MulAdd(s, hn::Set(dd, 0.044715), hn::Set(dd, 1.0));
                        return Clamp(dd, hn::Mul(hn::Mul(v, hn::Set(dd, 1.5957691216057308)), c), -1e4, 1e4);
                      }));
}

// x times the sigmoid of alpha x.
HWY_INLINE F32Vec Swish(F32Vec x, float alpha) {
  return TimesSigmoid(x, InDouble(x, [&](auto dd, auto v) {
                        return Clamp(dd, hn::Mul(v, hn::Set(dd, static_cast<double>(alpha))), -1e4, 1e4);
                      }));
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::cpu
HWY_AFTER_NAMESPACE();

#endif
