// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "plan/caps.h"
#include "plan/kernel_request.h"
#include "shared/params/merge_states.h"

namespace fovea {

struct MergeStatesPlan {
  MergeStatesSpec spec;
  const char* kernel = "";
  Workspace workspace;
  int lanes = 0;                   // CUDA: of a warp, for one row
  std::vector<KernelUse> kernels;  // CUDA: one
};

// capacity: kFewParts or kMaxParts.
KernelRequest merge_states_kernel(const CudaArch& arch, int capacity);

Status make_plan(const MergeStatesSpec& spec, const Caps& caps, MergeStatesPlan& plan);
std::string explain(const MergeStatesPlan& plan);

}  // namespace fovea
