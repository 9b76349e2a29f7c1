// SPDX-License-Identifier: Apache-2.0
#include "support/device.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string_view>

#include <sys/mman.h>

#include "backend/cuda/driver.h"
#include "fovea/fovea.h"

namespace fovea::test {
namespace {

class CudaDevice final : public TestDevice {
 public:
  static std::unique_ptr<CudaDevice> open(std::string& why_not) {
    const cuda::Driver* driver = nullptr;
    cuda::DeviceFacts facts;
    std::unique_ptr<CudaDevice> device(new CudaDevice);
    Status status = cuda::Driver::instance(driver);
    if (status.ok()) status = cuda::find_device(*driver, 0, facts);
    if (status.ok()) status = cuda::PrimaryContext::retain(*driver, facts.device, device->primary_);
    if (status.ok()) status = device->create_stream();
    if (status.ok()) return device;
    why_not = status.message();
    return nullptr;
  }

  std::byte* allocate(size_t bytes) override {
    const std::lock_guard lock(mutex_);
    if (spare_ != nullptr && spare_bytes_ >= bytes && !separate_allocations()) {
      taken_[spare_] = spare_bytes_;
      return std::exchange(spare_, nullptr);
    }
    const cuda::ScopedContext scope(*primary_);
    cuda::DevicePtr p = 0;
    const size_t size = bytes > 0 ? bytes : 1;
    const cuda::Result result = api().mem_alloc(&p, size);
    if (result == cuda::result::out_of_memory) return nullptr;
    check(result, "cuMemAlloc");
    auto* memory = reinterpret_cast<std::byte*>(p);
    if (memory != nullptr) taken_[memory] = size;
    return memory;
  }

  // The largest arena so far is kept for the next one.
  void release(std::byte* memory) override {
    if (memory == nullptr) return;
    const std::lock_guard lock(mutex_);
    size_t size = taken_[memory];
    taken_.erase(memory);
    constexpr size_t kMostKept = size_t{256} << 20;
    if (!separate_allocations() && size <= kMostKept && (spare_ == nullptr || size > spare_bytes_)) {
      std::swap(memory, spare_);
      std::swap(size, spare_bytes_);
    }
    if (memory == nullptr) return;
    const cuda::ScopedContext scope(*primary_);
    check(api().mem_free(address(memory)), "cuMemFree");
  }

  std::byte* allocate_zeroed(size_t bytes) override {
    std::byte* memory = allocate(bytes);
    if (memory != nullptr) fill(memory, 0, bytes);
    return memory;
  }

  void write(std::byte* device, const std::byte* host, size_t bytes) override {
    if (bytes == 0) return;
    const cuda::ScopedContext scope(*primary_);
    check(api().memcpy_h2d_async(address(device), host, bytes, side()), "cuMemcpyHtoDAsync");
  }

  void read(std::byte* host, const std::byte* device, size_t bytes) override {
    if (bytes == 0) return;
    const cuda::ScopedContext scope(*primary_);
    check(api().memcpy_d2h_async(host, address(device), bytes, side()), "cuMemcpyDtoHAsync");
    check(api().stream_synchronize(side()), "cuStreamSynchronize");
  }

  void fill(std::byte* device, uint8_t byte, size_t bytes) override {
    if (bytes == 0) return;
    const cuda::ScopedContext scope(*primary_);
    check(api().memset_d8_async(address(device), byte, bytes, side()), "cuMemsetD8Async");
  }

  std::string finish() override {
    const cuda::ScopedContext scope(*primary_);
    check(api().stream_synchronize(side()), "cuStreamSynchronize");
    const std::lock_guard lock(error_mutex_);
    return error_;
  }

 private:
  CudaDevice() { type_ = FOVEA_CUDA; }
  Status create_stream() {
    const cuda::ScopedContext scope(*primary_);
    FOVEA_TRY(scope.status());
    cuda::Stream stream = nullptr;
    const Status status = primary_->driver().call(api().stream_create, &stream, cuda::kStreamNonBlocking);
    stream_ = stream;
    return status;
  }
  const cuda::DriverApi& api() const { return primary_->driver().api(); }
  cuda::Stream side() const { return static_cast<cuda::Stream>(stream_); }
  static cuda::DevicePtr address(const std::byte* p) { return reinterpret_cast<cuda::DevicePtr>(p); }
  void check(cuda::Result result, const char* call) {
    if (result == 0) return;
    const std::lock_guard lock(error_mutex_);
    if (error_.empty()) error_ = primary_->driver().error(call, result).message();
  }

  std::unique_ptr<cuda::PrimaryContext> primary_;
  std::mutex mutex_, error_mutex_;
  std::map<std::byte*, size_t> taken_;
  std::byte* spare_ = nullptr;
  size_t spare_bytes_ = 0;
  std::string error_;
};

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
  std::string finish() override { return ""; }

 private:
  static void move(std::byte* to, const std::byte* from, size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  std::map<std::byte*, size_t> taken_;
};

}  // namespace

TestDevice* cuda_device(std::string& why_not) {
  static std::string reason;
  // Never destroyed: the driver shuts down by itself, perhaps first.
  static TestDevice* const device = CudaDevice::open(reason).release();
  why_not = reason;
  return device;
}

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
