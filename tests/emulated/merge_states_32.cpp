// SPDX-License-Identifier: Apache-2.0
// merge_states<parts=32>, in a namespace of its own like kv_append.
#include "emulated/kernels.h"

#define fovea fovea_merge_32
#define merge_states merge_states_kernel_32
namespace fovea::config {
enum : int { parts = 32 };
}
#include "backend/cuda/kernels/merge_states.cuh"
#undef merge_states

void emulated::merge_states_32(const void* args, simt::Dim grid, simt::Dim block) {
  const auto& a = *static_cast<const fovea::MergeArgs*>(args);
  simt::run(grid, block, [&] { fovea::merge_states_kernel_32(a); });
}
