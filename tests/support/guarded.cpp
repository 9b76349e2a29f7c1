// SPDX-License-Identifier: Apache-2.0
#include "support/guarded.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace fovea::test {
namespace {

size_t page_bytes() {
  static const size_t bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

void* map(size_t bytes, int protection) {
  void* p = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
  return p;
}

}  // namespace

Guarded::Guarded(size_t bytes, Place place, uint8_t fill_byte) : size_(bytes) {
  const size_t page = page_bytes();
  const size_t inner = (bytes + page - 1) / page * page;
  mapped_ = inner + 2 * page;
  map_ = map(mapped_, PROT_NONE);
  std::byte* first = static_cast<std::byte*>(map_) + page;
  if (inner && mprotect(first, inner, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
  data_ = place == Place::end ? first + (inner - bytes) : first;
  fill(fill_byte);
}

Guarded::Guarded(Guarded&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      map_(std::exchange(other.map_, nullptr)),
      mapped_(std::exchange(other.mapped_, 0)) {}

Guarded& Guarded::operator=(Guarded&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(map_, other.map_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

Guarded::~Guarded() {
  if (map_) munmap(map_, mapped_);
}

void Guarded::fill(uint8_t byte) {
  if (size_) std::memset(data_, byte, size_);
}

bool Guarded::all(uint8_t byte) const {
  return std::all_of(data_, data_ + size_, [&](std::byte b) { return b == std::byte{byte}; });
}

Sparse::Sparse(size_t bytes) : data_(static_cast<std::byte*>(map(bytes, PROT_READ | PROT_WRITE))), size_(bytes) {}
Sparse::~Sparse() {
  munmap(data_, size_);
}

}  // namespace fovea::test
