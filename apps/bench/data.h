// SPDX-License-Identifier: Apache-2.0
// Memory of benchmark cases: operands with random contents, or their sizes alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <vector>

#include "bench/memory.h"
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
  Data(Mode mode, uint64_t seed, Memory& memory = host_memory())
      : mode_(mode),
        memory_(&memory),
        device_type_(memory.device_type()),
        device_id_(memory.device_id()),
        random_(seed) {}
  // Sizes of operands on a device that need not be there.
  static Data sizes_on(int32_t device_type, int32_t device_id) {
    Data data(kSizesOnly, 0);
    data.device_type_ = device_type;
    data.device_id_ = device_id;
    return data;
  }

  // Numbers of either sign between 1/8 and 2 in any float type; in block types every 16-bit field is such a number.
  Tensor random(int32_t dtype, std::initializer_list<int64_t> shape);
  // The same tensor in every set, which is not part of what rotates.
  Tensor common(int32_t dtype, std::initializer_list<int64_t> shape);
  Tensor output(int32_t dtype, std::initializer_list<int64_t> shape);
  // fill(T* values) writes them, in memory of the host.
  template <class T, class Fill>
  Tensor index(std::initializer_list<int64_t> shape, const Fill& fill) {
    Tensor t = fovea::tensor(static_cast<const T*>(nullptr), shape);
    allocate(t);
    if (t.data != nullptr) put(t.data, bytes_of(t), [&](void* values) { fill(static_cast<T*>(values)); });
    return t;
  }
  Tensor steps(int64_t n, int64_t step);              // i32 {0, step, .., (n - 1) step}
  Tensor constants(int64_t n, int64_t value);         // i32
  Tensor permutation(int64_t rows, int64_t columns);  // i32: every number below rows * columns once
  std::vector<int32_t> shuffled(int64_t n);           // the numbers below n
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
  // Zeros that are no operand: not counted in bytes(). Null for 0 bytes.
  void* workspace(uint64_t bytes);

 private:
  static uint64_t bytes_of(const Tensor& t);
  void allocate(Tensor& t);
  void* take(uint64_t bytes);
  // fill(void* values) writes `bytes` bytes; through memory of the host where `to` is a device's.
  template <class Fill>
  void put(void* to, uint64_t bytes, const Fill& fill) {
    if (memory_->host_writes()) return fill(to);
    if (staging_.size() < bytes) staging_.resize(bytes);
    fill(static_cast<void*>(staging_.data()));
    memory_->write(to, staging_.data(), bytes);
  }

  struct Release {
    Memory* memory;
    void operator()(void* p) const { memory->release(p); }
  };
  Mode mode_;
  Memory* memory_;
  int32_t device_type_, device_id_;
  Random random_;
  uint64_t bytes_ = 0;
  std::vector<std::unique_ptr<void, Release>> blocks_;
  std::vector<std::byte> staging_;
  std::vector<std::shared_ptr<const void>> kept_;
  std::vector<Tensor> common_;
  size_t next_common_ = 0;
};

}  // namespace fovea::bench
