// SPDX-License-Identifier: Apache-2.0
// The first CUDA device of this machine as the tests use it, with streams and graphs.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/cuda/driver.h"
#include "support/device.h"

namespace fovea::test {

class CudaDevice final : public TestDevice {
 public:
  // One for the process, or null and why there is none.
  static CudaDevice* instance(std::string& why_not);

  std::byte* allocate(size_t bytes) override;
  void release(std::byte* memory) override;
  std::byte* allocate_zeroed(size_t bytes) override;
  void write(std::byte* device, const std::byte* host, size_t bytes) override;
  void read(std::byte* host, const std::byte* device, size_t bytes) override;
  void fill(std::byte* device, uint8_t byte, size_t bytes) override;
  void copy(std::byte* to, const std::byte* from, size_t bytes) override;
  void delay() override;
  std::string finish() override;

  void* new_stream() override;  // non-blocking
  void wait(void* stream) override;
  int capture(void* stream, const std::function<void()>& body) override;
  void replay(int graph, void* stream) override;

 private:
  CudaDevice();
  static std::unique_ptr<CudaDevice> open(std::string& why_not);
  const cuda::DriverApi& api() const { return primary_->driver().api(); }
  cuda::Stream side() const { return static_cast<cuda::Stream>(stream_); }
  static cuda::DevicePtr address(const std::byte* p) { return reinterpret_cast<cuda::DevicePtr>(p); }
  void check(cuda::Result result, const char* call);

  std::unique_ptr<cuda::PrimaryContext> primary_;
  std::mutex mutex_, error_mutex_;
  std::map<std::byte*, size_t> taken_;
  std::byte* spare_ = nullptr;  // the largest arena so far is kept for the next one
  size_t spare_bytes_ = 0;
  std::byte* idle_ = nullptr;  // what delay() writes to
  std::string error_;          // the first
  std::vector<cuda::GraphExec> graphs_;
};

}  // namespace fovea::test
