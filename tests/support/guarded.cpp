// SPDX-License-Identifier: Apache-2.0
#include "support/guarded.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
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

// All that is alive, by address.
struct Registry {
  std::mutex mutex;
  std::map<const std::byte*, Region> regions;
};

Registry& registry() {
  static auto* const all = new Registry;  // outlives every static test object
  return *all;
}

void enter(std::byte* data, size_t size, bool sparse) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.regions[data] = {data, size, sparse};
}

void leave(const std::byte* data) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.regions.erase(data);
}

// Some kernels call every page resident; then only the contents tell.
bool knows_untouched_pages() {
  static const bool knows = [] {
    void* p = map(page_bytes(), PROT_READ | PROT_WRITE);
    unsigned char there = 1;
    const bool told = mincore(p, page_bytes(), &there) == 0 && (there & 1) == 0;
    munmap(p, page_bytes());
    return told;
  }();
  return knows;
}

bool all_zero(const std::byte* p, size_t n) {
  return n == 0 || (p[0] == std::byte{0} && std::memcmp(p, p + 1, n - 1) == 0);
}

}  // namespace

Region region_of(const void* p) {
  const auto* at = static_cast<const std::byte*>(p);
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  auto after = all.regions.upper_bound(at);
  if (at == nullptr || after == all.regions.begin()) return {};
  // A view of nothing may begin anywhere in the guard page behind an allocation.
  const Region& region = std::prev(after)->second;
  return at < region.data + region.size + page_bytes() ? region : Region{};
}

std::vector<Extent> resident(const std::byte* data, size_t size) {
  const size_t page = page_bytes(), pages = (size + page - 1) / page;
  const bool ask = knows_untouched_pages();
  std::vector<unsigned char> there(ask ? pages : 0, 1);
  if (ask) mincore(const_cast<std::byte*>(data), size, there.data());
  std::vector<Extent> found;
  for (size_t i = 0; i < pages; ++i) {
    const size_t first = i * page, n = std::min(page, size - first);
    if (ask ? (there[i] & 1) == 0 : all_zero(data + first, n)) continue;
    if (!found.empty() && found.back().first + found.back().size == first) {
      found.back().size += n;
    } else {
      found.push_back({first, n});
    }
  }
  return found;
}

Guarded::Guarded(size_t bytes, Place place, uint8_t fill_byte) : size_(bytes) {
  const size_t page = page_bytes();
  const size_t inner = (bytes + page - 1) / page * page;
  mapped_ = inner + 2 * page;
  map_ = map(mapped_, PROT_NONE);
  std::byte* first = static_cast<std::byte*>(map_) + page;
  if (inner && mprotect(first, inner, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
  data_ = place == Place::end ? first + (inner - bytes) : first;
  enter(data_, size_, false);
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
  if (!map_) return;
  leave(data_);
  munmap(map_, mapped_);
}

void Guarded::fill(uint8_t byte) {
  if (size_) std::memset(data_, byte, size_);
}

bool Guarded::all(uint8_t byte) const {
  return std::all_of(data_, data_ + size_, [&](std::byte b) { return b == std::byte{byte}; });
}

Sparse::Sparse(size_t bytes) : data_(static_cast<std::byte*>(map(bytes, PROT_READ | PROT_WRITE))), size_(bytes) {
  enter(data_, size_, true);
}
Sparse::~Sparse() {
  leave(data_);
  munmap(data_, size_);
}

}  // namespace fovea::test
