// SPDX-License-Identifier: Apache-2.0
// A device kernel by its source, entry and compile-time constants. A plan that launches such kernels has a member
// `std::vector<KernelUse> kernels`; the api layer lets the backend load them before the plan is handed out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/cuda_arch.h"

namespace fovea {

// The kernel file reads it as `config::<name>`, an enumerator of type int: usable as a template argument or array size.
struct KernelConstant {
  std::string_view name;
  int32_t value = 0;
  bool operator==(const KernelConstant&) const = default;
};

// The strings are literals of the code that plans.
struct KernelRequest {
  std::string_view file;   // below src/, "backend/cuda/kernels/selftest.cuh"
  std::string_view entry;  // the extern "C" name of the __global__ function
  std::vector<KernelConstant> constants = {};
  CudaArch arch = {};
  bool operator==(const KernelRequest&) const = default;
};

std::string name(const KernelRequest& request);  // "selftest<block=128>"

// A kernel that a backend has made ready to launch. It belongs to the backend's context.
struct LoadedKernel {};

struct KernelUse {
  KernelRequest request;
  const LoadedKernel* loaded = nullptr;
};

}  // namespace fovea
