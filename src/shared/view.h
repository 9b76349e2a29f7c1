// SPDX-License-Identifier: Apache-2.0
// A tensor as kernels see it: checked, absent where data is null. Strides in elements. Freestanding.
#pragma once

#include "shared/convert.h"
#include "shared/dtype.h"

namespace fovea {

struct View {
  void* data = nullptr;
  Dtype dtype = Dtype::none;
  int rank = 0;
  i64_t shape[5] = {};
  i64_t stride[5] = {};

  constexpr bool given() const { return dtype != Dtype::none; }
};

// Byte address of an element of a type with whole-byte elements. Block types: index counts must be whole blocks.
inline char* address(const View& v, i64_t element_offset) {
  return static_cast<char*>(v.data) + element_offset / dtype_block(v.dtype) * dtype_block_bytes(v.dtype);
}
inline char* row(const View& v, i64_t i) {
  return address(v, i * v.stride[0]);
}
inline char* row(const View& v, i64_t i, i64_t j) {
  return address(v, i * v.stride[0] + j * v.stride[1]);
}
inline char* row(const View& v, i64_t i, i64_t j, i64_t k) {
  return address(v, i * v.stride[0] + j * v.stride[1] + k * v.stride[2]);
}

// Element i of a rank-1 index tensor (i32 or i64).
inline i64_t index_at(const View& v, i64_t i) {
  const char* p = row(v, i);
  if (v.dtype == Dtype::i32) {
    int x;
    __builtin_memcpy(&x, p, sizeof x);
    return x;
  }
  i64_t x;
  __builtin_memcpy(&x, p, sizeof x);
  return x;
}
inline i64_t index_at(const View& v, i64_t i, i64_t j) {
  View r = v;
  r.data = address(v, i * v.stride[0]);
  r.stride[0] = v.stride[1];
  return index_at(r, j);
}

// One element of a float or e4m3 tensor.
inline float float_at(const char* p, Dtype t) {
  if (t == Dtype::f32) {
    float x;
    __builtin_memcpy(&x, p, sizeof x);
    return x;
  }
  if (t == Dtype::e4m3) return e4m3_to_f32(static_cast<u8_t>(*p));
  u16_t h;
  __builtin_memcpy(&h, p, sizeof h);
  return t == Dtype::f16 ? f16_to_f32(h) : bf16_to_f32(h);
}

}  // namespace fovea
