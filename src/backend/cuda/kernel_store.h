// SPDX-License-Identifier: Apache-2.0
// Where the code of a kernel comes from: the bundle, else the disk cache, else NVRTC where compiling is allowed.
// Needs no device.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "backend/cuda/bundle.h"
#include "backend/cuda/disk_cache.h"
#include "backend/cuda/kernel_source.h"
#include "backend/cuda/nvrtc.h"

namespace fovea::cuda {

enum class Origin : int { bundle, cache, compiled };
const char* name(Origin origin);

struct Code {
  std::string cubin;
  Origin origin = Origin::compiled;
  NvrtcVersion version;  // that compiled it
};

struct StoreOptions {
  CudaArch arch = {};
  int max_major = Nvrtc::kNewestMajor;  // of NVRTC: what the driver loads
  std::string nvrtc = {};               // as of Nvrtc::open
  const char* bundle = nullptr;         // a file, or a folder of bundles; null: beside the library; "": none
  const char* cache_dir = nullptr;      // null: DiskCache::default_folder; "": none
  std::string library_folder = {};      // what bundles stand beside; empty: the library's own folder
};

class KernelStore {
 public:
  // A bundle that the options name must be good; one that is missing beside the library is not an error.
  static Status open(const StoreOptions& options, std::unique_ptr<KernelStore>& out);

  // NOT_COMPILED says where it was looked for.
  Status fetch(const KernelSource& source, bool may_compile, Code& out);

  std::string describe_bundle() const;
  std::string describe_cache() const { return cache_.describe(); }
  std::string describe_nvrtc();
  int64_t compiled() const { return compiled_; }  // by this store
  DiskCache& cache() { return cache_; }
  const Bundle* bundle() const { return bundle_.get(); }

 private:
  KernelStore(const StoreOptions& options, const std::string& cache_folder, const std::string& no_cache);
  Status open_named_bundle();
  void look_for_bundle();
  Status compiler(const Nvrtc*& out);

  StoreOptions options_;
  std::unique_ptr<Bundle> bundle_;
  std::string no_bundle_;  // why there is none
  DiskCache cache_;
  std::mutex mutex_;  // of the compiler, which is opened when it is first needed
  std::unique_ptr<Nvrtc> nvrtc_;
  std::atomic<int64_t> compiled_{0};
};

}  // namespace fovea::cuda
