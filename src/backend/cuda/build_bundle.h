// SPDX-License-Identifier: Apache-2.0
// Making a bundle: what the build tool does.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/cubin.h"
#include "backend/cuda/nvrtc.h"
#include "plan/kernel_request.h"

namespace fovea::cuda {

struct BuildOptions {
  CudaArch arch = {};
  std::vector<const Nvrtc*> compilers = {};  // the first one that knows the architecture is taken
  std::string cache = {};                    // folder of what is compiled already; empty: compile everything
  int threads = 0;                           // 0: one for each core
};

struct BuiltKernel {
  std::string name;
  Hash128 key;
  uint64_t bytes = 0;
  bool compiled = false;  // and not taken from the cache
  double seconds = 0;
  Resources resources;
  int spill_bytes = -1;  // stored and loaded by a thread; -1: not known, since it was in the cache
};

struct BuiltBundle {
  NvrtcVersion version;
  uint64_t bytes = 0;                // of the file
  std::vector<BuiltKernel> kernels;  // in the order of the requests
};

// UNSUPPORTED where no compiler knows the architecture.
Status build_bundle(const std::vector<KernelRequest>& requests, const BuildOptions& options, const std::string& path,
                    BuiltBundle& out);

}  // namespace fovea::cuda
