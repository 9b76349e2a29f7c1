// SPDX-License-Identifier: Apache-2.0
#include "support/device.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>
#include <vector>

#include <sys/mman.h>

#include "fovea/fovea.h"

namespace fovea::test {
namespace {

class HostDevice final : public TestDevice {
 public:
  HostDevice() { type_ = FOVEA_CPU; }

  std::byte* allocate(size_t bytes) override { return allocate_zeroed(bytes); }
  std::byte* allocate_zeroed(size_t bytes) override {
    const size_t size = bytes > 0 ? bytes : 1;
    void* p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return nullptr;
    taken_[static_cast<std::byte*>(p)] = size;
    return static_cast<std::byte*>(p);
  }
  void release(std::byte* memory) override {
    const auto found = taken_.find(memory);
    if (found == taken_.end()) return;
    munmap(memory, found->second);
    taken_.erase(found);
  }
  void write(std::byte* device, const std::byte* host, size_t bytes) override { move(device, host, bytes); }
  void read(std::byte* host, const std::byte* device, size_t bytes) override { move(host, device, bytes); }
  void fill(std::byte* device, uint8_t byte, size_t bytes) override {
    if (bytes > 0) std::memset(device, byte, bytes);
  }
  void copy(std::byte* to, const std::byte* from, size_t bytes) override { move(to, from, bytes); }
  void delay() override {}  // what was launched has happened already
  std::string finish() override { return ""; }
  void* new_stream() override { return nullptr; }
  void wait(void*) override {}
  int capture(void*, const std::function<void()>& body) override {
    graphs_.push_back(body);
    return static_cast<int>(graphs_.size()) - 1;
  }
  void replay(int graph, void*) override { graphs_[static_cast<size_t>(graph)](); }

 private:
  static void move(std::byte* to, const std::byte* from, size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  std::map<std::byte*, size_t> taken_;
  std::vector<std::function<void()>> graphs_;
};

}  // namespace

std::unique_ptr<TestDevice> host_device() {
  return std::make_unique<HostDevice>();
}

bool separate_allocations() {
  static const bool separate = [] {
    const char* text = std::getenv("FOVEA_TEST_DEVICE");
    return text != nullptr && std::string_view(text) == "separate";
  }();
  return separate;
}

}  // namespace fovea::test
