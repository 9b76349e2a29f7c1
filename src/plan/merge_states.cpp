// SPDX-License-Identifier: Apache-2.0
#include "plan/merge_states.h"

namespace fovea {

namespace {

// Lanes that merge one row, eight elements each at a time. They follow from d alone: bits do not depend on strides.
int lanes_of_row(i64_t d) {
  return d <= 64 ? 8 : d <= 128 ? 16 : 32;
}

}  // namespace

KernelRequest merge_states_kernel(const CudaArch& arch, int capacity) {
  return {.file = "backend/cuda/kernels/merge_states.cuh",
          .entry = "merge_states",
          .constants = {{"parts", capacity}},
          .arch = arch};
}

Status make_plan(const MergeStatesSpec& spec, const Caps& caps, MergeStatesPlan& plan) {
  plan = {};
  plan.spec = spec;
  plan.kernel = "cpu_rows";
  if (caps.device_type == FOVEA_CPU) return {};
  if (caps.device_type != FOVEA_CUDA) return unsupported("merge_states: no kernel for this device");
  if (spec.d > 0x7FFFFFFF / 4) return unsupported("merge_states: a row of " + std::to_string(spec.d) + " elements");
  plan.kernel = "cuda";
  plan.lanes = lanes_of_row(spec.d);
  plan.kernels = {{.request = merge_states_kernel(caps.arch, spec.parts <= kFewParts ? kFewParts : kMaxParts)}};
  return {};
}

std::string explain(const MergeStatesPlan& plan) {
  const std::string way = plan.kernels.empty()
                              ? ", one task per block of rows"
                              : ", " + std::to_string(plan.lanes) + " lanes per row, " + name(plan.kernels[0].request);
  return std::string("merge_states: ") + plan.kernel + ", " + std::to_string(plan.spec.parts) + " parts in order" +
         way + ", up to " + std::to_string(plan.spec.batch * plan.spec.tokens * plan.spec.heads) + " rows of " +
         std::to_string(plan.spec.d);
}

}  // namespace fovea
