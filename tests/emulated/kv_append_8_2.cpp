// SPDX-License-Identifier: Apache-2.0
// kv_append<width=8, units=2>. The kernel and all it includes live in a namespace of their own: other constants make
// other functions of the same names.
#include "emulated/kernels.h"

#define fovea fovea_append_8_2
#define kv_append kv_append_kernel_8_2
namespace fovea::config {
enum : int { width = 8, units = 2 };
}
#include "backend/cuda/kernels/kv_append.cuh"
#undef kv_append

char* fovea::dynamic_smem() {
  return simt::dynamic_memory;
}

void emulated::kv_append_8_2(const void* args, simt::Dim grid, simt::Dim block) {
  const auto& a = *static_cast<const fovea::KvAppendBlock*>(args);
  simt::run(grid, block, [&] { fovea::kv_append_kernel_8_2(a); });
}
