// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "plan/caps.h"
#include "plan/kernel_request.h"
#include "shared/params/kv_append_block.h"

namespace fovea {

struct KvAppendPlan {
  KvAppendSpec spec;
  const char* kernel = "";
  Workspace workspace;
  RotaryTable table;
  AppendShape shape[3];            // CUDA: K, V, Q
  std::vector<KernelUse> kernels;  // CUDA: one
};

// Chunks of `width` elements, `units` pairs of them in a lane: 8 with 1 or 2, or 1 with 16.
KernelRequest kv_append_kernel(const CudaArch& arch, int width, int units);

Status make_plan(const KvAppendSpec& spec, const Caps& caps, KvAppendPlan& plan);
std::string explain(const KvAppendPlan& plan);

}  // namespace fovea
