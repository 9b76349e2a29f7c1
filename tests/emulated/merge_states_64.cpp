// SPDX-License-Identifier: Apache-2.0
// merge_states<parts=64>, in a namespace of its own like kv_append.
#include "emulated/kernels.h"

#define fovea fovea_merge_64
#define merge_states merge_states_kernel_64
namespace fovea::config {
enum : int { parts = 64 };
}
#include "backend/cuda/kernels/merge_states.cuh"
#undef merge_states

void emulated::merge_states_64(const void* args, simt::Dim grid, simt::Dim block) {
  const auto& a = *static_cast<const fovea::MergeArgs*>(args);
  simt::run(grid, block, [&] { fovea::merge_states_kernel_64(a); });
}
