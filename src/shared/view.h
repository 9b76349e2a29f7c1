// SPDX-License-Identifier: Apache-2.0
// A tensor as kernels see it: checked, absent where data is null. Strides in elements. Freestanding.
#pragma once

#include "shared/convert.h"
#include "shared/dtype.h"

namespace fovea {

template <int dims>
struct ViewOf {
  void* data = nullptr;
  Dtype dtype = Dtype::none;
  int rank = 0;
  int block = 1;        // elements that are stored together
  int block_bytes = 0;  // of one block; of one element where block is 1
  i64_t shape[dims] = {};
  i64_t stride[dims] = {};

  constexpr bool given() const { return dtype != Dtype::none; }
};
using View = ViewOf<5>;
using IndexView = ViewOf<2>;  // of index tensors: blocks of kernel parameters are limited to 4 KiB

namespace detail {
FOVEA_COLD constexpr i64_t blocks_of(i64_t elements, int block) {
  return elements / block;
}
}  // namespace detail

// Byte address of an element. Block types: offsets are whole blocks.
template <int dims>
inline char* address(const ViewOf<dims>& v, i64_t element_offset) {
  // Index tensors have no block types, and kernels read them first of all.
  const bool whole = dims == 2 || v.block == 1;
  const i64_t blocks = whole ? element_offset : detail::blocks_of(element_offset, v.block);
  return static_cast<char*>(v.data) + blocks * v.block_bytes;
}
// The same of a type that is not a block type.
template <int dims>
inline char* element_address(const ViewOf<dims>& v, i64_t offset) {
  return static_cast<char*>(v.data) + offset * v.block_bytes;
}
template <int dims>
inline char* row(const ViewOf<dims>& v, i64_t i) {
  return address(v, i * v.stride[0]);
}
template <int dims>
inline char* row(const ViewOf<dims>& v, i64_t i, i64_t j) {
  return address(v, i * v.stride[0] + j * v.stride[1]);
}
inline char* row(const View& v, i64_t i, i64_t j, i64_t k) {
  return address(v, i * v.stride[0] + j * v.stride[1] + k * v.stride[2]);
}

// A value of memory that is aligned to it but may have been written as another type of its size.
template <class T>
inline T load(const char* p) {
#if defined(__CUDACC_RTC__)
  return *reinterpret_cast<const T*>(p);
#else
  T x;
  __builtin_memcpy(&x, p, sizeof x);
  return x;
#endif
}

// Element i of a rank-1 index tensor (i32 or i64).
template <int dims>
inline i64_t index_at(const ViewOf<dims>& v, i64_t i) {
  const char* p = row(v, i);
  return v.dtype == Dtype::i32 ? load<i32_t>(p) : load<i64_t>(p);
}
template <int dims>
inline i64_t index_at(const ViewOf<dims>& v, i64_t i, i64_t j) {
  ViewOf<dims> r = v;
  r.data = address(v, i * v.stride[0]);
  r.stride[0] = v.stride[1];
  return index_at(r, j);
}

// One element of a float or e4m3 tensor.
inline float float_at(const char* p, Dtype t) {
  if (t == Dtype::f32) return load<float>(p);
  if (t == Dtype::e4m3) return e4m3_to_f32(static_cast<u8_t>(*p));
  const u16_t h = load<u16_t>(p);
  return t == Dtype::f16 ? f16_to_f32(h) : bf16_to_f32(h);
}

}  // namespace fovea
