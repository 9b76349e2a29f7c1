// SPDX-License-Identifier: Apache-2.0
// The CUDA driver of this machine: opened once for the process, errors as Status, and owners of what it hands out.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "backend/cuda/driver_api.h"
#include "base/status.h"

namespace fovea::cuda {

class Driver {
 public:
  // The process's driver; the same answer each time. UNSUPPORTED where there is none, or it is too old.
  static Status instance(const Driver*& out);

  const DriverApi& api() const { return *api_; }
  int version() const { return version_; }  // of CUDA: 1000 * major + 10 * minor

  // Calls a function of the driver; an error names the call, the driver's error and what for.
  template <class F, class... Args>
  Status call(const Symbol<F>& function, Args... args) const {
    const Result result = function(args...);
    return result == 0 ? Status() : error(function.name(), result);
  }
  Status error(const char* call, Result result) const;

 private:
  Status open();

  std::unique_ptr<DriverApi> api_;
  int version_ = 0;
};

struct DeviceFacts {
  Device device = 0;
  std::string name;
  int compute_capability = 0;  // 10 * major + minor
  int sm_count = 0;
  int smem_bytes = 0;  // the most that one block may use
  int64_t l2_bytes = 0;
  int64_t memory_bytes = 0;
};

// INVALID_VALUE names device_id where there is no such device.
Status find_device(const Driver& driver, int32_t device_id, DeviceFacts& out);

// Holds the device's primary context, the one that the CUDA runtime and every framework use.
class PrimaryContext {
 public:
  static Status retain(const Driver& driver, Device device, std::unique_ptr<PrimaryContext>& out);
  ~PrimaryContext();
  PrimaryContext(const PrimaryContext&) = delete;
  PrimaryContext& operator=(const PrimaryContext&) = delete;
  DriverContext get() const { return context_; }
  const Driver& driver() const { return driver_; }

 private:
  PrimaryContext(const Driver& driver, Device device) : driver_(driver), device_(device) {}

  const Driver& driver_;
  Device device_;
  DriverContext context_ = nullptr;
};

// Makes a context the thread's current one for a scope; costs one query where it is that already.
class ScopedContext {
 public:
  explicit ScopedContext(const PrimaryContext& context);
  ~ScopedContext();
  ScopedContext(const ScopedContext&) = delete;
  ScopedContext& operator=(const ScopedContext&) = delete;
  const Status& status() const { return status_; }

 private:
  const Driver& driver_;
  bool pushed_ = false;
  Status status_;
};

// While it lives, calls of this thread that are unsafe during a capture do not spoil the captures of other threads.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Driver& driver);
  ~RelaxedCapture();
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const Driver& driver_;
  int mode_ = capture_mode::relaxed;  // after the constructor: what it was before
};

Status is_capturing(const Driver& driver, Stream stream, bool& out);

}  // namespace fovea::cuda
