// SPDX-License-Identifier: Apache-2.0
// A CUDA device as the place of a benchmark: memory, a stream, and time by events.
#pragma once

#include <functional>
#include <vector>

#include "bench/cuda_driver.h"
#include "bench/memory.h"

namespace fovea::bench {

class CudaDevice final : public Memory {
 public:
  // Takes the device's primary context, which is that of fovea's contexts as well. Throws app::Error.
  explicit CudaDevice(int32_t device_id);
  ~CudaDevice() override;
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  int32_t device_type() const override;
  int32_t device_id() const override { return device_id_; }
  uint64_t size() const override;
  const char* owner() const override { return "the device"; }
  void* stream() const override { return stream_; }
  bool host_writes() const override { return false; }
  void* allocate(uint64_t bytes) override;
  void release(void* memory) noexcept override;
  void write(void* to, const void* from, uint64_t bytes) override;
  void read(void* to, const void* from, uint64_t bytes) override;
  void zero(void* memory, uint64_t bytes) override;
  void repeat(void* memory, uint64_t block, uint64_t bytes) override;
  void copy(void* to, const void* from, uint64_t bytes);  // both on the device; queued

  void wait() const;
  // Seconds of each of `samples` runs of body(), which queues work. All of them are queued one behind the other, so
  // that the device has no gap between two runs as long as queueing is faster than running.
  std::vector<double> time(int64_t samples, const std::function<void(int64_t sample)>& body) const;

  // body() queues work on stream(); nothing runs. The graph is to be launched and destroyed by the caller.
  CudaGraphExec capture(const std::function<void()>& body) const;
  void launch(CudaGraphExec graph) const;
  void destroy(CudaGraphExec graph) const noexcept;

 private:
  const CudaDriver& driver_;
  int32_t device_id_;
  int device_ = 0;
  CudaStream stream_ = nullptr;
};

}  // namespace fovea::bench
