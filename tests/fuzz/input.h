// SPDX-License-Identifier: Apache-2.0
// Reads choices from the bytes of an input. When they run out, every further choice is the first one.
#pragma once

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <string>

#include "fuzz/target.h"

namespace fovea::fuzz {

class Input {
 public:
  explicit Input(Bytes data) : data_(data) {}

  size_t left() const { return data_.size(); }
  template <class T>
  T number() {
    T value{};
    const size_t n = std::min(sizeof value, data_.size());
    if (n > 0) std::memcpy(&value, data_.data(), n);
    data_ = data_.subspan(n);
    return value;
  }
  // In [low, high], from one byte where that is enough.
  int64_t range(int64_t low, int64_t high) {
    const auto span = static_cast<uint64_t>(high - low) + 1;
    const uint64_t drawn = span <= 256 ? number<uint8_t>() : number<uint32_t>();
    return low + static_cast<int64_t>(drawn % span);
  }
  bool chance(int of_256) { return number<uint8_t>() >= 256 - of_256; }
  template <class T>
  T pick(std::initializer_list<T> values) {
    return *(values.begin() + range(0, static_cast<int64_t>(values.size()) - 1));
  }
  std::string text(size_t most) {
    const size_t n = std::min(most, data_.size());
    std::string out(reinterpret_cast<const char*>(data_.data()), n);
    data_ = data_.subspan(n);
    return out;
  }
  // A number that code likes to be wrong about.
  uint64_t odd_word() {
    switch (range(0, 4)) {
      case 0:
        return static_cast<uint64_t>(range(-2, 20));
      case 1:
        return uint64_t{1} << range(0, 63);
      case 2:
        return pick<uint64_t>({0x7fffffff, 0xffffffff80000000, 0x7fffffffffffffff, 0x8000000000000000, ~uint64_t{0}});
      case 3:  // floats: 0.5, -1, 1e30, NaN, infinity, 1e-6, 2
        return pick<uint64_t>({0x3f000000, 0xbf800000, 0x7149f2ca, 0x7fc00000, 0x7f800000, 0x358637bd, 0x40000000});
      default:
        return number<uint64_t>();
    }
  }

 private:
  Bytes data_;
};

}  // namespace fovea::fuzz
