// SPDX-License-Identifier: Apache-2.0
#include "plan/cuda_arch.h"

#include "fovea/core.h"
#include "plan/caps.h"

namespace fovea {

std::string name(const CudaArch& arch) {
  std::string text = std::to_string(arch.number);
  if (arch.suffix != '\0') text += arch.suffix;
  return text;
}

const CudaArchRow* find_cuda_arch(std::string_view text) {
  if (text.starts_with("sm_")) text.remove_prefix(3);
  for (const CudaArchRow& row : kCudaArchs) {
    if (name(row.arch) == text) return &row;
  }
  return nullptr;
}

const CudaArchRow* find_cuda_arch(int32_t compute_capability) {
  const CudaArchRow* best = nullptr;
  for (const CudaArchRow& row : kCudaArchs) {
    const int32_t number = row.arch.number;
    const bool runs = row.arch.suffix == 'a' ? number == compute_capability
                                             : number / 10 == compute_capability / 10 && number <= compute_capability;
    if (runs) best = &row;  // rows ascend
  }
  return best;
}

std::string cuda_arch_names() {
  std::string names;
  for (const CudaArchRow& row : kCudaArchs) names += (names.empty() ? "" : ", ") + name(row.arch);
  return names;
}

Caps caps_of(const CudaArchRow& row) {
  return {.device_type = FOVEA_CUDA,
          .l2_bytes = row.l2_bytes,
          .compute_capability = row.arch.number,
          .sm_count = row.sm_count,
          .smem_bytes = row.smem_bytes,
          .arch = row.arch};
}

}  // namespace fovea
