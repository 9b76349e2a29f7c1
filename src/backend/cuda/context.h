// SPDX-License-Identifier: Apache-2.0
// The CUDA backend's state: a device, its primary context, and the kernels made ready on it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "backend/cuda/driver.h"
#include "backend/cuda/kernel_store.h"
#include "ops/backend.h"

namespace fovea::cuda {

// A kernel of a context, ready to launch. Its address stays while the context lives.
struct Kernel final : LoadedKernel {
  std::string name;
  Hash128 key;
  DriverModule module = nullptr;
  Function function = nullptr;  // null in a context without a device
  Origin origin = Origin::compiled;
  NvrtcVersion version;
  std::string cubin;  // kept only without a device, to be saved
  uint64_t bytes = 0;
  int registers = 0;        // per thread
  int local_bytes = 0;      // per thread: spills and arrays
  int static_smem = 0;      // bytes
  int dynamic_smem = 0;     // the most that a launch may ask for, bytes
  int max_threads = 0;      // of a block
  double milliseconds = 0;  // from the request to ready
};

class CudaContext final : public BackendContext {
 public:
  static Status create(const fovea_context_params& params, std::unique_ptr<BackendContext>& out);
  ~CudaContext() override;

  void describe(fovea_device_info& info) const override;
  Status load(std::vector<KernelUse>& kernels, const LoadScope& scope) override;
  std::string list_kernels() const override;
  Status save_kernels(const std::string& path) const override;

  // The kernel, made ready if it is not yet.
  Status kernel(const KernelRequest& request, const LoadScope& scope, const Kernel*& out);
  // The same with the source made of it, which may have texts that the library does not.
  Status kernel(const KernelRequest& request, const KernelSource& source, const LoadScope& scope, const Kernel*& out);

  bool has_device() const { return primary_ != nullptr; }
  const PrimaryContext& primary() const { return *primary_; }
  const Driver& driver() const { return *driver_; }
  KernelStore& store() const { return *store_; }

 private:
  // One for each key, so that of several threads one compiles and the rest wait for that kernel alone.
  struct Slot {
    std::mutex mutex;
    std::unique_ptr<Kernel> kernel;
  };

  Status open_device(const fovea_context_params& params);
  Status warm(int threads);
  Status make_ready(const KernelRequest& request, const KernelSource& source, Code code, std::unique_ptr<Kernel>& out);
  Status load_module(const KernelRequest& request, const std::string& cubin, Kernel& kernel);
  std::vector<const Kernel*> ready() const;  // by name

  const Driver* driver_ = nullptr;
  DeviceFacts facts_;
  std::unique_ptr<PrimaryContext> primary_;
  std::unique_ptr<KernelStore> store_;
  bool may_compile_ = false;
  mutable std::mutex mutex_;
  std::map<Hash128, std::unique_ptr<Slot>> slots_;
};

inline CudaContext& cuda(BackendContext& context) {
  return static_cast<CudaContext&>(context);
}

const Backend& backend();

}  // namespace fovea::cuda
