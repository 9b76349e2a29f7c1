// SPDX-License-Identifier: Apache-2.0
// Rows of elements of any float type to f32 and back, and from one type to another. Included once per Highway target.
#if defined(FOVEA_CPU_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_CPU_ROWS_INL_H_
#undef FOVEA_CPU_ROWS_INL_H_
#else
#define FOVEA_CPU_ROWS_INL_H_
#endif

#include "backend/cpu/kernels/convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::cpu {
namespace HWY_NAMESPACE {

// n elements at `from` (no alignment beyond the element) to f32.
HWY_INLINE void LoadRow(Dtype type, const char* from, float* to, i64_t n) {
  const F32Tag d;
  const i64_t step = static_cast<i64_t>(hn::Lanes(d));
  WithFloatType(type, [&](auto t) {
    using Raw = typename decltype(t)::Raw;
    const i64_t bytes = static_cast<i64_t>(sizeof(Raw));
    i64_t i = 0;
    for (; i + step <= n; i += step) hn::StoreU(LoadF32(t, d, from + i * bytes), d, to + i);
    if (i == n) return;
    const size_t rest = static_cast<size_t>(n - i);
    StoreF32Part(F32{}, d, LoadF32Part(t, d, from + i * bytes, rest), to + i, rest);
  });
}

// n values of f32, rounded to nearest even; e4m3 saturates.
HWY_INLINE void StoreRow(Dtype type, const float* from, char* to, i64_t n) {
  const F32Tag d;
  const i64_t step = static_cast<i64_t>(hn::Lanes(d));
  WithFloatType(type, [&](auto t) {
    using Raw = typename decltype(t)::Raw;
    const i64_t bytes = static_cast<i64_t>(sizeof(Raw));
    i64_t i = 0;
    for (; i + step <= n; i += step) StoreF32(t, d, hn::LoadU(d, from + i), to + i * bytes);
    if (i == n) return;
    const size_t rest = static_cast<size_t>(n - i);
    StoreF32Part(t, d, LoadF32Part(F32{}, d, from + i, rest), to + i * bytes, rest);
  });
}

// Equal types are copied bit by bit, NaN payloads included. `from` may be `to` where the types are equal.
HWY_INLINE void ConvertRow(Dtype from_type, const char* from, Dtype to_type, char* to, i64_t n) {
  const i64_t from_bytes = dtype_block_bytes(from_type), to_bytes = dtype_block_bytes(to_type);
  if (from_type == to_type) {
    if (from != to) __builtin_memcpy(to, from, static_cast<size_t>(n * from_bytes));
    return;
  }
  float part[256];
  for (i64_t i = 0; i < n; i += 256) {
    const i64_t count = n - i < 256 ? n - i : 256;
    LoadRow(from_type, from + i * from_bytes, part, count);
    StoreRow(to_type, part, to + i * to_bytes, count);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::cpu
HWY_AFTER_NAMESPACE();

#endif
