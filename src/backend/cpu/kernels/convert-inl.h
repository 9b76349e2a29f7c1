// SPDX-License-Identifier: Apache-2.0
// Vectors of f32 from and to every element type, from any address, whole or the first `count` lanes. The conversions
// give the bits of shared/convert.h on every instruction set. Included once per Highway target.
#if defined(FOVEA_CPU_CONVERT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_CPU_CONVERT_INL_H_
#undef FOVEA_CPU_CONVERT_INL_H_
#else
#define FOVEA_CPU_CONVERT_INL_H_
#endif

#include <hwy/highway.h>

#include <type_traits>

#include "shared/convert.h"
#include "shared/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using F32Tag = hn::ScalableTag<float>;
using F32Vec = hn::Vec<F32Tag>;

// Element types as C++ types, for templates over the load type.
struct F32 {
  using Raw = float;
  static constexpr Dtype dtype = Dtype::f32;
};
struct F16 {
  using Raw = uint16_t;
  static constexpr Dtype dtype = Dtype::f16;
};
struct Bf16 {
  using Raw = uint16_t;
  static constexpr Dtype dtype = Dtype::bf16;
};
struct E4m3 {
  using Raw = uint8_t;
  static constexpr Dtype dtype = Dtype::e4m3;
};

// e4m3 where no element is NaN, which takes half the steps. Not among WithFloatType's.
struct FiniteE4m3 : E4m3 {};

// The same, times 2^-120, which takes no multiplication: e4m3's subnormals become f32's. Where the other factor of a
// product is multiplied by kSmallE4m3 instead, nothing is rounded differently.
struct SmallE4m3 : FiniteE4m3 {};
inline constexpr float kSmallE4m3 = 0x1p120f;

// Calls body with the type of `t`: body(F32{}), ... `t` must be one of the four.
template <class Body>
HWY_INLINE auto WithFloatType(Dtype t, const Body& body) {
  switch (t) {
    case Dtype::f16:
      return body(F16{});
    case Dtype::bf16:
      return body(Bf16{});
    case Dtype::e4m3:
      return body(E4m3{});
    default:
      return body(F32{});
  }
}

// Raw lanes (one u16 or u8 each, widened to u32) to f32, and back.
template <class D, class V = hn::Vec<D>, class U = hn::Vec<hn::RebindToUnsigned<D>>>
HWY_INLINE V Widen(F16, D d, U raw) {
  const hn::RebindToUnsigned<D> du;
  const U sign = hn::ShiftLeft<16>(hn::And(raw, hn::Set(du, 0x8000u)));
  const U magnitude = hn::And(raw, hn::Set(du, 0x7FFFu));
  const V scaled = hn::Mul(hn::BitCast(d, hn::ShiftLeft<13>(magnitude)), hn::Set(d, 0x1p112f));
  const U special = hn::Or(hn::Set(du, 0x7F800000u), hn::ShiftLeft<13>(hn::And(raw, hn::Set(du, 0x3FFu))));
  const auto is_special =
      hn::Gt(hn::BitCast(hn::RebindToSigned<D>(), magnitude), hn::Set(hn::RebindToSigned<D>(), 0x7BFF));
  const U bits = hn::IfThenElse(hn::RebindMask(du, is_special), special, hn::BitCast(du, scaled));
  return hn::BitCast(d, hn::Or(bits, sign));
}

template <class D, class V = hn::Vec<D>, class U = hn::Vec<hn::RebindToUnsigned<D>>>
HWY_INLINE V Widen(Bf16, D d, U raw) {
  return hn::BitCast(d, hn::ShiftLeft<16>(raw));
}

// e4m3 in the top byte of each lane; the other bits do not matter.
template <class Type, class D, class V = hn::Vec<D>, class U = hn::Vec<hn::RebindToUnsigned<D>>>
HWY_INLINE V WidenTop(Type, D d, U top) {
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  // The sign stays, copies of it after it go; exponent and mantissa come to lie across f32's border between the two.
  const U bits = hn::And(hn::BitCast(du, hn::ShiftRight<4>(hn::BitCast(di, top))), hn::Set(du, 0x87F00000u));
  if constexpr (std::is_same_v<Type, SmallE4m3>) return hn::BitCast(d, bits);
  const V scaled = hn::Mul(hn::BitCast(d, bits), hn::Set(d, kSmallE4m3));
  if constexpr (std::is_same_v<Type, FiniteE4m3>) return scaled;
  // 480 would be 0x7F, which is NaN: with f32's exponent all ones.
  const auto is_nan = hn::Eq(hn::And(bits, hn::Set(du, 0x07F00000u)), hn::Set(du, 0x07F00000u));
  const U nan = hn::Or(hn::And(bits, hn::Set(du, 0x80000000u)), hn::Set(du, 0x7FC00000u));
  return hn::IfThenElse(hn::RebindMask(d, is_nan), hn::BitCast(d, nan), scaled);
}

template <class D, class V = hn::Vec<D>, class U = hn::Vec<hn::RebindToUnsigned<D>>>
HWY_INLINE V Widen(E4m3, D d, U raw) {
  return WidenTop(E4m3(), d, hn::ShiftLeft<24>(raw));
}

// `p` need not be aligned beyond the element.
template <class Type, class D, class V = hn::Vec<D>>
HWY_INLINE V LoadF32(Type type, D d, const void* p) {
  if constexpr (Type::dtype == Dtype::f32) {
    return hn::LoadU(d, static_cast<const float*>(p));
  } else if constexpr (std::is_base_of_v<FiniteE4m3, Type>) {
    const hn::RebindToSigned<D> di;
    const hn::Rebind<int8_t, D> dr;
    // Extended by the sign, of which WidenTop would make the same copies.
    const auto bits = hn::And(hn::ShiftLeft<20>(hn::PromoteTo(di, hn::LoadU(dr, static_cast<const int8_t*>(p)))),
                              hn::Set(di, static_cast<int32_t>(0x87F00000u)));
    if constexpr (std::is_same_v<Type, SmallE4m3>) return hn::BitCast(d, bits);
    return hn::Mul(hn::BitCast(d, bits), hn::Set(d, kSmallE4m3));
  } else {
    const hn::RebindToUnsigned<D> du;
    const hn::Rebind<typename Type::Raw, D> dr;
    return Widen(type, d, hn::PromoteTo(du, hn::LoadU(dr, static_cast<const typename Type::Raw*>(p))));
  }
}

// The first `count` lanes, zeros after them; reads nothing beyond.
template <class Type, class D, class V = hn::Vec<D>>
HWY_INLINE V LoadF32Part(Type type, D d, const void* p, size_t count) {
  using Raw = typename Type::Raw;
  HWY_ALIGN Raw lanes[hn::MaxLanes(d)] = {};
  __builtin_memcpy(lanes, p, count * sizeof(Raw));
  return LoadF32(type, d, lanes);
}

template <class D, class U = hn::Vec<hn::RebindToUnsigned<D>>>
HWY_INLINE U Narrow(Bf16, D, hn::Vec<D> x) {
  const hn::RebindToUnsigned<D> du;
  const U b = hn::BitCast(du, x);
  const U odd = hn::And(hn::ShiftRight<16>(b), hn::Set(du, 1u));
  const U rounded = hn::ShiftRight<16>(hn::Add(b, hn::Add(hn::Set(du, 0x7FFFu), odd)));
  const U quiet = hn::Or(hn::ShiftRight<16>(b), hn::Set(du, 0x40u));
  return hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(x)), quiet, rounded);
}

// Shared by f16 and e4m3: `drop` mantissa bits go, `rebias` is the f32 exponent offset, values below `tiny` are
// subnormal and rounded by adding `magic`, from `top` on (as f32 bits) the result is `most`.
template <int drop, class D, class U = hn::Vec<hn::RebindToUnsigned<D>>>
HWY_INLINE U NarrowMagnitude(D d, hn::Vec<D> x, uint32_t rebias, uint32_t tiny, float magic, uint32_t top,
                             uint32_t most) {
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  const auto a = hn::And(hn::BitCast(di, x), hn::Set(di, 0x7FFFFFFF));
  const U ua = hn::BitCast(du, a);
  const U odd = hn::And(hn::ShiftRight<drop>(ua), hn::Set(du, 1u));
  const U half = hn::Set(du, (1u << (drop - 1)) - 1u);
  const U normal = hn::ShiftRight<drop>(hn::Add(hn::Sub(ua, hn::Set(du, rebias)), hn::Add(half, odd)));
  const U subnormal =
      hn::Sub(hn::BitCast(du, hn::Add(hn::BitCast(d, ua), hn::Set(d, magic))), hn::Set(du, bits_of_float(magic)));
  const auto is_tiny = hn::RebindMask(du, hn::Lt(a, hn::Set(di, static_cast<int32_t>(tiny))));
  const auto is_top = hn::RebindMask(du, hn::Gt(a, hn::Set(di, static_cast<int32_t>(top - 1))));
  return hn::IfThenElse(is_top, hn::Set(du, most), hn::IfThenElse(is_tiny, subnormal, normal));
}

template <class D, class U = hn::Vec<hn::RebindToUnsigned<D>>>
HWY_INLINE U Narrow(F16, D d, hn::Vec<D> x) {
  const hn::RebindToUnsigned<D> du;
  const U b = hn::BitCast(du, x);
  const U sign = hn::And(hn::ShiftRight<16>(b), hn::Set(du, 0x8000u));
  const U m = NarrowMagnitude<13>(d, x, 0x38000000u, 0x38800000u, 0.5f, 0x477FF000u, 0x7C00u);
  const U nan = hn::Or(hn::Set(du, 0x7E00u), hn::And(hn::ShiftRight<13>(b), hn::Set(du, 0x3FFu)));
  return hn::Or(sign, hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(x)), nan, m));
}

template <class D, class U = hn::Vec<hn::RebindToUnsigned<D>>>
HWY_INLINE U Narrow(E4m3, D d, hn::Vec<D> x) {
  const hn::RebindToUnsigned<D> du;
  const U sign = hn::And(hn::ShiftRight<24>(hn::BitCast(du, x)), hn::Set(du, 0x80u));
  const U m = NarrowMagnitude<20>(d, x, 0x3C000000u, 0x3C800000u, 16384.0f, 0x43E00000u, 0x7Eu);
  return hn::Or(sign, hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(x)), hn::Set(du, 0x7Fu), m));
}

// f32 to the element type, to nearest even; e4m3 saturates.
template <class Type, class D>
HWY_INLINE void StoreF32(Type type, D d, hn::Vec<D> x, void* p) {
  if constexpr (Type::dtype == Dtype::f32) {
    hn::StoreU(x, d, static_cast<float*>(p));
  } else {
    const hn::Rebind<typename Type::Raw, D> dr;
    const hn::RebindToSigned<D> di;
    // Lanes fit the narrow type, so the saturating demotion is exact.
    hn::StoreU(hn::DemoteTo(dr, hn::BitCast(di, Narrow(type, d, x))), dr, static_cast<typename Type::Raw*>(p));
  }
}

template <class Type, class D>
HWY_INLINE void StoreF32Part(Type type, D d, hn::Vec<D> x, void* p, size_t count) {
  using Raw = typename Type::Raw;
  HWY_ALIGN Raw lanes[hn::MaxLanes(d)];
  StoreF32(type, d, x, lanes);
  __builtin_memcpy(p, lanes, count * sizeof(Raw));
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::cpu
HWY_AFTER_NAMESPACE();

#endif
