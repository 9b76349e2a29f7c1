// SPDX-License-Identifier: Apache-2.0
// Walks over rows of any float type, a vector of f32 lanes at a time. Included once per Highway target.
#if defined(FOVEA_CPU_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_CPU_LANES_INL_H_
#undef FOVEA_CPU_LANES_INL_H_
#else
#define FOVEA_CPU_LANES_INL_H_
#endif

#include "backend/cpu/kernels/convert-inl.h"
#include "shared/view.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::cpu {
namespace HWY_NAMESPACE {

// Calls body(i, count) for [0, n) in steps of a vector; count is the vector's lanes but in the last step.
template <class Body>
HWY_INLINE void ForLanes(i64_t n, const Body& body) {
  const i64_t step = static_cast<i64_t>(hn::Lanes(F32Tag()));
  for (i64_t i = 0; i < n; i += step) body(i, static_cast<size_t>(n - i < step ? n - i : step));
}

// Elements [i, i + count) of packed memory; zeros after them.
inline F32Vec Lanes(Dtype type, const char* p, i64_t i, size_t count) {
  const F32Tag d;
  return WithFloatType(type, [&](auto t) {
    const char* q = p + i * static_cast<i64_t>(sizeof(typename decltype(t)::Raw));
    return count == hn::Lanes(d) ? LoadF32(t, d, q) : LoadF32Part(t, d, q, count);
  });
}

inline void PutLanes(Dtype type, F32Vec x, char* p, i64_t i, size_t count) {
  const F32Tag d;
  WithFloatType(type, [&](auto t) {
    char* q = p + i * static_cast<i64_t>(sizeof(typename decltype(t)::Raw));
    if (count == hn::Lanes(d)) {
      StoreF32(t, d, x, q);
    } else {
      StoreF32Part(t, d, x, q, count);
    }
  });
}

// The same where neighbours are `stride` elements apart.
inline F32Vec StridedLanes(Dtype type, const char* p, i64_t i, size_t count, i64_t stride) {
  if (stride == 1) return Lanes(type, p, i, count);
  return WithFloatType(type, [&](auto t) {
    using Raw = typename decltype(t)::Raw;
    HWY_ALIGN Raw lanes[hn::MaxLanes(F32Tag())] = {};
    for (size_t j = 0; j < count; ++j) {
      const i64_t at = (i + static_cast<i64_t>(j)) * stride;
      __builtin_memcpy(lanes + j, p + at * static_cast<i64_t>(sizeof(Raw)), sizeof(Raw));
    }
    return LoadF32(t, F32Tag(), lanes);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::cpu
HWY_AFTER_NAMESPACE();

#endif
