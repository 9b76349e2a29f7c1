// SPDX-License-Identifier: Apache-2.0
// What the kernels of attention name beside the common things; included by the sources that a test compiles.
#pragma once

#include <stdexcept>

#include "emulated/simt.h"

#define __noinline__ inline  // after every header of the library: some have an attribute of this name
#undef __shared__
#define __shared__  // one array of the whole program

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};

inline int min(int a, int b) {
  return a < b ? a : b;
}
inline int max(int a, int b) {
  return a > b ? a : b;
}
inline int __popc(unsigned x) {
  return __builtin_popcount(x);
}
inline int __clz(int x) {
  return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x));
}
inline int __ffs(int x) {
  return __builtin_ffs(x);
}
inline float __int_as_float(int x) {
  return __builtin_bit_cast(float, x);
}
inline float __fmaf_rn(float a, float b, float c) {
  return fmaf(a, b, c);
}
inline float __fdiv_rn(float a, float b) {
  return a / b;
}
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const unsigned long long both = a | static_cast<unsigned long long>(b) << 32;
  unsigned r = 0;
  for (int i = 0; i < 4; ++i) r |= static_cast<unsigned>(both >> (selector >> 4 * i & 7) * 8 & 0xFF) << 8 * i;
  return r;
}
template <class T>
T __ldcg(const T* p) {
  return *p;
}
inline void* __cvta_shared_to_generic(unsigned address) {
  return simt::dynamic_memory + address;
}
inline int __syncthreads_or(int x) {
  return simt::any_of_block(x);
}

namespace simt {
template <class T>
T shuffle(unsigned mask, T x, int from) {
  static_assert(sizeof(T) <= 8);
  meet(mask, &x, sizeof x);
  T other;
  read(from, &other, sizeof other);
  return other;
}
}  // namespace simt

template <class T>
T __shfl_sync(unsigned mask, T x, int from) {
  return simt::shuffle(mask, x, from % 32);
}
template <class T>
T __shfl_up_sync(unsigned mask, T x, int step) {
  const int lane = simt::this_lane();
  return simt::shuffle(mask, x, lane >= step ? lane - step : lane);
}
inline unsigned __ballot_sync(unsigned mask, bool x) {
  simt::meet(mask, &x, sizeof x);
  unsigned bits = 0;
  for (int lane = 0; lane < 32; ++lane) {
    bool other = false;
    if (mask >> lane & 1) simt::read(lane, &other, sizeof other);
    bits |= static_cast<unsigned>(other) << lane;
  }
  return bits;
}
inline int __all_sync(unsigned mask, bool x) {
  return __ballot_sync(mask, x) == mask;
}
inline int __any_sync(unsigned mask, bool x) {
  return __ballot_sync(mask, x) != 0;
}
