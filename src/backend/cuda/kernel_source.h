// SPDX-License-Identifier: Apache-2.0
// From a request to everything that its compilation depends on, and the key made of it.
#pragma once

#include <string>
#include <vector>

#include "backend/cuda/sources.h"
#include "plan/kernel_request.h"

namespace fovea::cuda {

struct KernelSource {
  std::string name;                    // for messages: "selftest<block=128> for sm_90a"
  std::string program;                 // the constants, then the include of the kernel file
  std::vector<const Source*> headers;  // what the program may include
  std::vector<std::string> options;    // of the compiler
  Hash128 key;                         // of all of the above but the name; the compiler's version is not in it
};

Status make_kernel_source(const Sources& sources, const KernelRequest& request, KernelSource& out);

}  // namespace fovea::cuda
