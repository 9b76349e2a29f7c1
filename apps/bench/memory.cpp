// SPDX-License-Identifier: Apache-2.0
#include "bench/memory.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "fovea/core.h"

namespace fovea::bench {

namespace {

constexpr size_t kAlign = 64;  // a cache line, and the widest vector

class HostMemory final : public Memory {
 public:
  int32_t device_type() const override { return FOVEA_CPU; }
  int32_t device_id() const override { return 0; }
  uint64_t size() const override {
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page) : UINT64_MAX;
  }
  const char* owner() const override { return "this machine"; }
  void* stream() const override { return nullptr; }
  bool host_writes() const override { return true; }
  void* allocate(uint64_t bytes) override {
    void* memory = std::aligned_alloc(kAlign, (bytes + kAlign - 1) / kAlign * kAlign);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
  }
  void release(void* memory) noexcept override { std::free(memory); }
  void write(void* to, const void* from, uint64_t bytes) override { std::memcpy(to, from, bytes); }
  void read(void* to, const void* from, uint64_t bytes) override { std::memcpy(to, from, bytes); }
  void zero(void* memory, uint64_t bytes) override { std::memset(memory, 0, bytes); }
  void repeat(void* memory, uint64_t block, uint64_t bytes) override {
    auto* to = static_cast<char*>(memory);
    for (uint64_t at = block; at < bytes; at += block) std::memcpy(to + at, to, std::min(block, bytes - at));
  }
};

}  // namespace

Memory& host_memory() {
  static HostMemory memory;
  return memory;
}

}  // namespace fovea::bench
