// SPDX-License-Identifier: Apache-2.0
// Memory of an exact size between two pages that nobody may touch, filled with a poison byte (0xFF is NaN in every
// floating-point type we store, and -1 as an index).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fovea::test {

inline constexpr uint8_t kPoison = 0xFF;

// Where in its pages the buffer lies: against the guard page behind it, or against the one before it.
enum class Place { end, begin };

class Guarded {
 public:
  Guarded() = default;
  explicit Guarded(size_t bytes, Place place = Place::end, uint8_t fill = kPoison);
  Guarded(Guarded&& other) noexcept;
  Guarded& operator=(Guarded&& other) noexcept;
  ~Guarded();

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  void fill(uint8_t byte);
  bool all(uint8_t byte) const;
  std::vector<std::byte> copy() const { return {data_, data_ + size_}; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  void* map_ = nullptr;
  size_t mapped_ = 0;
};

// An allocation of the tests: what a mirror on a device copies as a whole.
struct Region {
  std::byte* data = nullptr;  // null: none
  size_t size = 0;
  bool sparse = false;
};

// The Guarded or Sparse memory that holds `p`, or has it in the page behind.
Region region_of(const void* p);

// The parts of [data, data + size) that hold anything but untouched zeros, by pages.
struct Extent {
  size_t first, size;  // bytes
};
std::vector<Extent> resident(const std::byte* data, size_t size);

// Address space without memory behind it: a page costs something only once it is touched; untouched ones read as zero.
class Sparse {
 public:
  explicit Sparse(size_t bytes);
  Sparse(const Sparse&) = delete;
  Sparse& operator=(const Sparse&) = delete;
  ~Sparse();
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  std::byte* data_;
  size_t size_;
};

}  // namespace fovea::test
