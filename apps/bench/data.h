// SPDX-License-Identifier: Apache-2.0
// Memory of benchmark cases: operands with random contents, or their sizes alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <vector>

#include "fovea/fovea.hpp"

namespace fovea::bench {

// Random bits, the same on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t bits() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);  // SplitMix64
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  int64_t below(int64_t n) { return static_cast<int64_t>(bits() % static_cast<uint64_t>(n)); }

 private:
  uint64_t state_;
};

// Owns the memory of all sets of a case. Without memory (`sizes_only`) tensors have null data and only bytes() counts:
// enough to plan, and to see how much a case needs before taking it.
class Data {
 public:
  enum Mode { kSizesOnly, kFilled };
  Data(Mode mode, uint64_t seed) : mode_(mode), random_(seed) {}

  // Numbers of either sign between 1/8 and 2 in any float type; in block types every 16-bit field is such a number.
  Tensor random(int32_t dtype, std::initializer_list<int64_t> shape);
  // The same tensor in every set, which is not part of what rotates.
  Tensor common(int32_t dtype, std::initializer_list<int64_t> shape);
  Tensor output(int32_t dtype, std::initializer_list<int64_t> shape);
  // fill(T* values) writes them.
  template <class T, class Fill>
  Tensor index(std::initializer_list<int64_t> shape, const Fill& fill) {
    Tensor t = fovea::tensor(static_cast<const T*>(nullptr), shape);
    allocate(t);
    if (t.data != nullptr) fill(static_cast<T*>(t.data));
    return t;
  }
  Tensor steps(int64_t n, int64_t step);              // i32 {0, step, .., (n - 1) step}
  Tensor constants(int64_t n, int64_t value);         // i32
  Tensor permutation(int64_t rows, int64_t columns);  // i32: every number below rows * columns once
  // A struct that parameter structs point to; lives as long as this.
  template <class T>
  const T* keep(T value) {
    auto kept = std::make_shared<const T>(std::move(value));
    kept_.push_back(kept);
    return kept.get();
  }

  void begin_set() { next_common_ = 0; }
  Random& rng() { return random_; }
  bool sizes_only() const { return mode_ == kSizesOnly; }
  uint64_t bytes() const { return bytes_; }

 private:
  void allocate(Tensor& t);

  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  Mode mode_;
  Random random_;
  uint64_t bytes_ = 0;
  std::vector<std::unique_ptr<std::byte[], Free>> blocks_;
  std::vector<std::shared_ptr<const void>> kept_;
  std::vector<Tensor> common_;
  size_t next_common_ = 0;
};

}  // namespace fovea::bench
