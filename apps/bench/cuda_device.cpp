// SPDX-License-Identifier: Apache-2.0
#include "bench/cuda_device.h"

#include <algorithm>

#include "fovea/core.h"

namespace fovea::bench {

namespace {

constexpr unsigned kNonBlocking = 1;  // CU_STREAM_NON_BLOCKING
constexpr int kThreadLocal = 1;       // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL

// Events of one timing.
class Events {
 public:
  Events(const CudaDriver& driver, size_t count) : driver_(driver) {
    for (size_t i = 0; i < count; ++i) {
      CudaEvent event = nullptr;
      driver(driver.event_create, &event, 0u);
      events_.push_back(event);
    }
  }
  ~Events() {
    for (CudaEvent event : events_) driver_.event_destroy.address(event);
  }
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;
  CudaEvent operator[](size_t i) const { return events_[i]; }

 private:
  const CudaDriver& driver_;
  std::vector<CudaEvent> events_;
};

}  // namespace

CudaDevice::CudaDevice(int32_t device_id) : driver_(CudaDriver::instance()), device_id_(device_id) {
  driver_(driver_.device_get, &device_, static_cast<int>(device_id));
  CudaContextHandle context = nullptr;
  driver_(driver_.primary_ctx_retain, &context, device_);
  driver_(driver_.ctx_set_current, context);
  driver_(driver_.stream_create, &stream_, kNonBlocking);
}

CudaDevice::~CudaDevice() {
  driver_.stream_destroy.address(stream_);
  driver_.primary_ctx_release.address(device_);
}

int32_t CudaDevice::device_type() const {
  return FOVEA_CUDA;
}

uint64_t CudaDevice::size() const {
  size_t bytes = 0;
  driver_(driver_.device_total_mem, &bytes, device_);
  return bytes;
}

void* CudaDevice::allocate(uint64_t bytes) {
  CudaPointer memory = 0;
  driver_(driver_.mem_alloc, &memory, static_cast<size_t>(bytes));
  return reinterpret_cast<void*>(memory);
}

void CudaDevice::release(void* memory) noexcept {
  driver_.mem_free.address(cuda_pointer(memory));
}

void CudaDevice::write(void* to, const void* from, uint64_t bytes) {
  driver_(driver_.memcpy_h2d, cuda_pointer(to), from, static_cast<size_t>(bytes), stream_);
  wait();
}

void CudaDevice::read(void* to, const void* from, uint64_t bytes) {
  driver_(driver_.memcpy_d2h, to, cuda_pointer(from), static_cast<size_t>(bytes), stream_);
  wait();
}

void CudaDevice::zero(void* memory, uint64_t bytes) {
  driver_(driver_.memset_d8, cuda_pointer(memory), static_cast<unsigned char>(0), static_cast<size_t>(bytes), stream_);
}

void CudaDevice::copy(void* to, const void* from, uint64_t bytes) {
  driver_(driver_.memcpy_d2d, cuda_pointer(to), cuda_pointer(from), static_cast<size_t>(bytes), stream_);
}

void CudaDevice::repeat(void* memory, uint64_t block, uint64_t bytes) {
  auto* to = static_cast<char*>(memory);
  for (uint64_t at = block; at < bytes; at += block) copy(to + at, to, std::min(block, bytes - at));
}

void CudaDevice::wait() const {
  driver_(driver_.stream_synchronize, stream_);
}

std::vector<double> CudaDevice::time(int64_t samples, const std::function<void(int64_t sample)>& body) const {
  const Events events(driver_, static_cast<size_t>(samples) + 1);
  driver_(driver_.event_record, events[0], stream_);
  for (int64_t i = 0; i < samples; ++i) {
    body(i);
    driver_(driver_.event_record, events[static_cast<size_t>(i) + 1], stream_);
  }
  wait();
  std::vector<double> seconds;
  for (size_t i = 0; i < static_cast<size_t>(samples); ++i) {
    float milliseconds = 0;
    driver_(driver_.event_elapsed_time, &milliseconds, events[i], events[i + 1]);
    seconds.push_back(static_cast<double>(milliseconds) * 1e-3);
  }
  return seconds;
}

CudaGraphExec CudaDevice::capture(const std::function<void()>& body) const {
  driver_(driver_.stream_begin_capture, stream_, kThreadLocal);
  CudaGraph graph = nullptr;
  try {
    body();
  } catch (...) {
    driver_.stream_end_capture.address(stream_, &graph);
    if (graph != nullptr) driver_.graph_destroy.address(graph);
    throw;
  }
  driver_(driver_.stream_end_capture, stream_, &graph);
  CudaGraphExec exec = nullptr;
  const int result = driver_.graph_instantiate.address(&exec, graph, 0);
  driver_.graph_destroy.address(graph);
  if (result != 0) driver_.fail(driver_.graph_instantiate.name, result);
  return exec;
}

void CudaDevice::launch(CudaGraphExec graph) const {
  driver_(driver_.graph_launch, graph, stream_);
}

void CudaDevice::destroy(CudaGraphExec graph) const noexcept {
  driver_.graph_exec_destroy.address(graph);
}

}  // namespace fovea::bench
