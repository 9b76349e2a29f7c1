// SPDX-License-Identifier: Apache-2.0
#include "bench/data.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace fovea::bench {

namespace {

constexpr uint64_t kAlign = 64;                  // a cache line, and the widest vector
constexpr uint64_t kBlock = uint64_t{64} << 20;  // random bytes that a device's larger tensors repeat

// Random bits become a number by keeping sign, mantissa and the two low bits of the exponent, and setting the others.
struct Pattern {
  uint64_t keep, set;  // of 64 bits of packed elements
};
constexpr Pattern pattern_of(int32_t dtype) {
  constexpr uint64_t kBy16 = 0x0001000100010001u, kBy8 = 0x0101010101010101u, kBy32 = 0x0000000100000001u;
  switch (dtype) {
    case FOVEA_F32:
      return {kBy32 * 0x81ffffffu, kBy32 * 0x3e000000u};
    case FOVEA_BF16:
      return {kBy16 * 0x81ffu, kBy16 * 0x3e00u};
    case FOVEA_E4M3:
      return {kBy8 * 0x9fu, kBy8 * 0x20u};
    case FOVEA_MXFP4:  // exponents from 96 to 127, so that nothing is subnormal
      return {kBy8 * 0x1fu, kBy8 * 0x60u};
    default:  // f16, and other block types: their scales are f16, and any bits are codes
      return {kBy16 * 0x8fffu, kBy16 * 0x3000u};
  }
}

}  // namespace

uint64_t Data::bytes_of(const Tensor& t) {
  int64_t elements = 1;
  for (int32_t i = 0; i < t.rank; ++i) elements *= t.shape[i];
  const int64_t bytes = fovea_dtype_bytes(t.dtype, elements);
  if (bytes < 0 || (t.rank > 0 && fovea_dtype_bytes(t.dtype, t.shape[t.rank - 1]) < 0)) {
    throw Error(FOVEA_INVALID_VALUE, "a row of " + std::to_string(t.shape[t.rank - 1]) +
                                         " elements is no whole number of " + fovea_dtype_name(t.dtype) + " blocks");
  }
  return static_cast<uint64_t>(bytes);
}

void* Data::take(uint64_t bytes) {
  void* memory = memory_->allocate(bytes);
  blocks_.emplace_back(memory, Release{memory_});
  return memory;
}

void Data::allocate(Tensor& t) {
  t.device_type = device_type_;
  t.device_id = device_id_;
  const uint64_t bytes = (bytes_of(t) + kAlign - 1) / kAlign * kAlign;
  bytes_ += bytes;
  if (mode_ != kSizesOnly && bytes > 0) t.data = take(bytes);
}

void* Data::workspace(uint64_t bytes) {
  if (bytes == 0) return nullptr;
  void* memory = take(bytes);
  memory_->zero(memory, bytes);
  return memory;
}

Tensor Data::random(int32_t dtype, std::initializer_list<int64_t> shape) {
  Tensor t = fovea::tensor(nullptr, dtype, shape);
  allocate(t);
  if (t.data == nullptr) return t;
  const Pattern pattern = pattern_of(dtype);
  const uint64_t bytes = (bytes_of(t) + 7) / 8 * 8;  // memory is whole cache lines
  const uint64_t block = memory_->host_writes() ? bytes : std::min(bytes, kBlock);
  put(t.data, block, [&](void* to) {
    auto* words = static_cast<uint64_t*>(to);
    for (uint64_t i = 0; i < block / 8; ++i) words[i] = (random_.bits() & pattern.keep) | pattern.set;
  });
  memory_->repeat(t.data, block, bytes);
  return t;
}

Tensor Data::common(int32_t dtype, std::initializer_list<int64_t> shape) {
  if (next_common_ == common_.size()) common_.push_back(random(dtype, shape));
  return common_[next_common_++];
}

Tensor Data::output(int32_t dtype, std::initializer_list<int64_t> shape) {
  Tensor t = fovea::tensor(nullptr, dtype, shape);
  allocate(t);
  if (t.data != nullptr) memory_->zero(t.data, bytes_of(t));
  return t;
}

Tensor Data::steps(int64_t n, int64_t step) {
  return index<int32_t>({n}, [&](int32_t* values) {
    for (int64_t i = 0; i < n; ++i) values[i] = static_cast<int32_t>(i * step);
  });
}

Tensor Data::constants(int64_t n, int64_t value) {
  return index<int32_t>({n}, [&](int32_t* values) { std::fill_n(values, n, static_cast<int32_t>(value)); });
}

Tensor Data::permutation(int64_t rows, int64_t columns) {
  return index<int32_t>({rows, columns}, [&](int32_t* values) {
    const std::vector<int32_t> numbers = shuffled(rows * columns);
    std::copy(numbers.begin(), numbers.end(), values);
  });
}

std::vector<int32_t> Data::shuffled(int64_t n) {
  std::vector<int32_t> values(static_cast<size_t>(n));
  std::iota(values.begin(), values.end(), 0);
  for (size_t i = values.size(); i > 1; --i) {
    std::swap(values[i - 1], values[static_cast<size_t>(random_.below(static_cast<int64_t>(i)))]);
  }
  return values;
}

}  // namespace fovea::bench
