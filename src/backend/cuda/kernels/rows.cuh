// SPDX-License-Identifier: Apache-2.0
// Elements of any float type at any address, in packed words and as f32. The conversions are those of shared/convert.h:
// the CPU's bits, NaN payloads included.
//
// `words` of `count` elements: one u32 holds 4 / sizeof(element) of them, the first in its low bits; the array has one
// word per element, which is what f32 needs, so that code may keep words of a type that is known only at run time.
#pragma once

#include "shared/convert.h"
#include "shared/dtype.h"
#if defined(__CUDA_ARCH__)
#include "backend/cuda/kernels/ptx/convert.cuh"
#include "backend/cuda/kernels/ptx/convert_fp8.cuh"
#endif

namespace fovea {

struct F32 {
  using Raw = u32_t;
  static constexpr Dtype dtype = Dtype::f32;
  static float widen(Raw x) { return float_of_bits(x); }
  static Raw narrow(float x) { return bits_of_float(x); }
};
struct F16 {
  using Raw = u16_t;
  static constexpr Dtype dtype = Dtype::f16;
  static float widen(Raw x) { return f16_to_f32(x); }
  static Raw narrow(float x) { return f32_to_f16(x); }
};
struct Bf16 {
  using Raw = u16_t;
  static constexpr Dtype dtype = Dtype::bf16;
  static float widen(Raw x) { return bf16_to_f32(x); }
  static Raw narrow(float x) { return f32_to_bf16(x); }
};
struct E4m3 {
  using Raw = u8_t;
  static constexpr Dtype dtype = Dtype::e4m3;
  static float widen(Raw x) { return e4m3_to_f32(x); }
  static Raw narrow(float x) { return f32_to_e4m3(x); }
};

// Calls body with the type of `t`: one of f32, f16, bf16.
template <class Body>
inline void with_input_type(Dtype t, const Body& body) {
  if (t == Dtype::bf16) {
    body(Bf16{});
  } else if (t == Dtype::f16) {
    body(F16{});
  } else {
    body(F32{});
  }
}

// The same with e4m3.
template <class Body>
inline void with_float_type(Dtype t, const Body& body) {
  if (t == Dtype::e4m3) {
    body(E4m3{});
  } else {
    with_input_type(t, body);
  }
}

inline bool is_aligned(const void* p, unsigned bytes) {
  return (reinterpret_cast<u64_t>(p) & (bytes - 1)) == 0;
}

// Eight elements that are aligned to 16 bytes, or to 8 where they are bytes.
template <class Type>
inline void fetch_aligned(const char* p, u32_t (&words)[8]) {
  constexpr int bytes = 8 * static_cast<int>(sizeof(typename Type::Raw));
  if constexpr (bytes == 8) {
    const uint2 v = *reinterpret_cast<const uint2*>(p);
    words[0] = v.x, words[1] = v.y;
  } else {
#pragma unroll
    for (int i = 0; i < bytes / 16; ++i) {
      const uint4 v = reinterpret_cast<const uint4*>(p)[i];
      words[4 * i] = v.x, words[4 * i + 1] = v.y, words[4 * i + 2] = v.z, words[4 * i + 3] = v.w;
    }
  }
}

template <class Type>
inline void put_aligned(char* p, const u32_t (&words)[8]) {
  constexpr int bytes = 8 * static_cast<int>(sizeof(typename Type::Raw));
  if constexpr (bytes == 8) {
    *reinterpret_cast<uint2*>(p) = uint2{words[0], words[1]};
  } else {
#pragma unroll
    for (int i = 0; i < bytes / 16; ++i) {
      reinterpret_cast<uint4*>(p)[i] = uint4{words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]};
    }
  }
}

// `count` (1 or 8) elements at any address.
template <class Type, int count>
inline void fetch(const char* p, u32_t (&words)[count]) {
  using Raw = typename Type::Raw;
  constexpr int bytes = count * static_cast<int>(sizeof(Raw)), per_word = 4 / static_cast<int>(sizeof(Raw));
  if constexpr (count == 8) {
    if (is_aligned(p, bytes < 16 ? bytes : 16)) return fetch_aligned<Type>(p, words);
  }
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const u32_t x = reinterpret_cast<const Raw*>(p)[i];
    u32_t& word = words[i / per_word];
    word = i % per_word == 0 ? x : word | x << (i % per_word * 8 * static_cast<int>(sizeof(Raw)));
  }
}

template <class Type, int count>
inline void put(char* p, const u32_t (&words)[count]) {
  using Raw = typename Type::Raw;
  constexpr int bytes = count * static_cast<int>(sizeof(Raw)), per_word = 4 / static_cast<int>(sizeof(Raw));
  if constexpr (count == 8) {
    if (is_aligned(p, bytes < 16 ? bytes : 16)) return put_aligned<Type>(p, words);
  }
#pragma unroll
  for (int i = 0; i < count; ++i) {
    reinterpret_cast<Raw*>(p)[i] =
        static_cast<Raw>(words[i / per_word] >> (i % per_word * 8 * static_cast<int>(sizeof(Raw))));
  }
}

// Eight at once by instructions, which know one NaN only: false where there is a NaN or no instruction.
template <class Type, int count>
inline bool widen_by_instructions([[maybe_unused]] const u32_t (&words)[count], [[maybe_unused]] float (&x)[count]) {
#if defined(__CUDA_ARCH__)
  if constexpr (count == 8 && Type::dtype == Dtype::f16) {
    bool nan = false;
#pragma unroll
    for (int i = 0; i < count; ++i) {
      x[i] = ptx::f32_of_f16(static_cast<u16_t>(words[i / 2] >> (i % 2 * 16)));
      nan = nan || x[i] != x[i];
    }
    return !nan;
  }
#endif
  return false;
}
template <class Type, int count>
inline bool narrow_by_instructions([[maybe_unused]] const float (&x)[count], [[maybe_unused]] u32_t (&words)[count]) {
#if defined(__CUDA_ARCH__)
  constexpr bool half = (Type::dtype == Dtype::f16 || Type::dtype == Dtype::bf16) && __CUDA_ARCH__ >= 800;
  constexpr bool byte = Type::dtype == Dtype::e4m3 && __CUDA_ARCH__ >= 890;
  if constexpr (count == 8 && (half || byte)) {
    bool nan = false;
#pragma unroll
    for (int i = 0; i < count; ++i) nan = nan || x[i] != x[i];
    if (nan) return false;
#pragma unroll
    for (int i = 0; i < count; i += 2) {
      if constexpr (Type::dtype == Dtype::f16) words[i / 2] = ptx::pack_f16(x[i], x[i + 1]);
      if constexpr (Type::dtype == Dtype::bf16) words[i / 2] = ptx::pack_bf16(x[i], x[i + 1]);
      if constexpr (byte) {
        const u32_t two = ptx::e4m3x2_of_f32(x[i], x[i + 1]);
        words[i / 4] = i % 4 == 0 ? two : words[i / 4] | two << 16;
      }
    }
    return true;
  }
#endif
  return false;
}

template <class Type, int count>
inline void widen(const u32_t (&words)[count], float (&x)[count]) {
  if (widen_by_instructions<Type>(words, x)) return;
  constexpr int per_word = 4 / static_cast<int>(sizeof(typename Type::Raw));
#pragma unroll
  for (int i = 0; i < count; ++i) {
    x[i] = Type::widen(static_cast<typename Type::Raw>(words[i / per_word] >> (i % per_word * (32 / per_word))));
  }
}

template <class Type, int count>
inline void narrow(const float (&x)[count], u32_t (&words)[count]) {
  if (narrow_by_instructions<Type>(x, words)) return;
  constexpr int per_word = 4 / static_cast<int>(sizeof(typename Type::Raw));
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const u32_t raw = Type::narrow(x[i]);
    u32_t& word = words[i / per_word];
    word = i % per_word == 0 ? raw : word | raw << (i % per_word * (32 / per_word));
  }
}

}  // namespace fovea
