// SPDX-License-Identifier: Apache-2.0
#include "support/cuda_device.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <utility>

#include "fovea/fovea.h"

namespace fovea::test {

namespace {

// Empty, or the error that the first device's context answers every call with from now on.
std::string lost_context() {
  const cuda::Driver* driver = nullptr;
  cuda::DeviceFacts facts;
  std::unique_ptr<cuda::PrimaryContext> primary;
  if (!cuda::Driver::instance(driver).ok() || !cuda::find_device(*driver, 0, facts).ok()) return "";
  const Status retained = cuda::PrimaryContext::retain(*driver, facts.device, primary);
  if (!retained.ok()) return retained.message();
  const cuda::ScopedContext scope(*primary);
  if (!scope.status().ok()) return scope.status().message();
  driver->api().ctx_synchronize();  // an error that passes is told once
  return driver->call(driver->api().ctx_synchronize).message();
}

// A kernel's fault ends the process's context: the tests that remain would fail one by one and say nothing new.
class Watch final : public ::testing::EmptyTestEventListener {
  void OnTestEnd(const ::testing::TestInfo& test) override {
    if (lost_ || !test.result()->Failed()) return;
    const std::string error = lost_context();
    if (error.empty()) return;
    lost_ = true;
    std::printf("The device's context was lost in %s.%s (%s): the tests after it are skipped in this process\n",
                test.test_suite_name(), test.name(), error.c_str());
    GTEST_FLAG_SET(fail_fast, true);
  }
  bool lost_ = false;
};

// Linked wherever there is a device, and in place before main.
[[maybe_unused]] const bool kWatching = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new Watch);
  return true;
}();

}  // namespace

CudaDevice::CudaDevice() {
  type_ = FOVEA_CUDA;
}

std::unique_ptr<CudaDevice> CudaDevice::open(std::string& why_not) {
  const cuda::Driver* driver = nullptr;
  cuda::DeviceFacts facts;
  std::unique_ptr<CudaDevice> device(new CudaDevice);
  Status status = cuda::Driver::instance(driver);
  if (status.ok()) status = cuda::find_device(*driver, 0, facts);
  if (status.ok()) status = cuda::PrimaryContext::retain(*driver, facts.device, device->primary_);
  if (!status.ok()) {
    why_not = status.message();
    return nullptr;
  }
  device->stream_ = device->new_stream();
  return device;
}

CudaDevice* CudaDevice::instance(std::string& why_not) {
  static std::string reason;
  // Never destroyed: the driver shuts down by itself, perhaps first.
  static CudaDevice* const device = open(reason).release();
  why_not = reason;
  return device;
}

void CudaDevice::check(cuda::Result result, const char* call) {
  if (result == 0) return;
  const std::lock_guard lock(error_mutex_);
  if (error_.empty()) error_ = primary_->driver().error(call, result).message();
}

std::byte* CudaDevice::allocate(size_t bytes) {
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

void CudaDevice::release(std::byte* memory) {
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

std::byte* CudaDevice::allocate_zeroed(size_t bytes) {
  std::byte* memory = allocate(bytes);
  if (memory != nullptr) fill(memory, 0, bytes);
  return memory;
}

void CudaDevice::write(std::byte* device, const std::byte* host, size_t bytes) {
  if (bytes == 0) return;
  const cuda::ScopedContext scope(*primary_);
  check(api().memcpy_h2d_async(address(device), host, bytes, side()), "cuMemcpyHtoDAsync");
}

void CudaDevice::read(std::byte* host, const std::byte* device, size_t bytes) {
  if (bytes == 0) return;
  const cuda::ScopedContext scope(*primary_);
  check(api().memcpy_d2h_async(host, address(device), bytes, side()), "cuMemcpyDtoHAsync");
  check(api().stream_synchronize(side()), "cuStreamSynchronize");
}

void CudaDevice::fill(std::byte* device, uint8_t byte, size_t bytes) {
  if (bytes == 0) return;
  const cuda::ScopedContext scope(*primary_);
  check(api().memset_d8_async(address(device), byte, bytes, side()), "cuMemsetD8Async");
}

void CudaDevice::copy(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes == 0) return;
  const cuda::ScopedContext scope(*primary_);
  check(api().memcpy_d2d_async(address(to), address(from), bytes, side()), "cuMemcpyDtoDAsync");
}

void CudaDevice::delay() {
  constexpr size_t kBytes = size_t{256} << 20;  // about 0.1 ms a time on a fast card
  if (idle_ == nullptr) idle_ = allocate(kBytes);
  for (int i = 0; i < 50 && idle_ != nullptr; ++i) fill(idle_, static_cast<uint8_t>(i), kBytes);
}

std::string CudaDevice::finish() {
  wait(stream_);
  const std::lock_guard lock(error_mutex_);
  return error_;
}

void* CudaDevice::new_stream() {
  const cuda::ScopedContext scope(*primary_);
  cuda::Stream stream = nullptr;
  check(api().stream_create(&stream, cuda::kStreamNonBlocking), "cuStreamCreate");
  return stream;
}

void CudaDevice::wait(void* stream) {
  const cuda::ScopedContext scope(*primary_);
  check(api().stream_synchronize(static_cast<cuda::Stream>(stream)), "cuStreamSynchronize");
}

int CudaDevice::capture(void* stream, const std::function<void()>& body) {
  const cuda::ScopedContext scope(*primary_);
  auto* on = static_cast<cuda::Stream>(stream);
  cuda::Graph graph = nullptr;
  cuda::GraphExec exec = nullptr;
  check(api().stream_begin_capture(on, cuda::capture_mode::global), "cuStreamBeginCapture");
  body();
  check(api().stream_end_capture(on, &graph), "cuStreamEndCapture");
  if (graph == nullptr) return -1;
  check(api().graph_instantiate(&exec, graph, 0), "cuGraphInstantiateWithFlags");
  check(api().graph_destroy(graph), "cuGraphDestroy");
  if (exec == nullptr) return -1;
  graphs_.push_back(exec);
  return static_cast<int>(graphs_.size()) - 1;
}

void CudaDevice::replay(int graph, void* stream) {
  if (graph < 0) return;
  const cuda::ScopedContext scope(*primary_);
  check(api().graph_launch(graphs_[static_cast<size_t>(graph)], static_cast<cuda::Stream>(stream)), "cuGraphLaunch");
}

}  // namespace fovea::test
