// SPDX-License-Identifier: Apache-2.0
// The CUDA architectures that kernels are compiled for, and what a plan may assume of a card of each.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace fovea {

struct Caps;

// sm_<number><suffix>. Suffix 'a': runs on exactly this compute capability; 'f': on this one and later ones of its
// major number, with the family's own instructions; none: as 'f', with the common instructions.
struct CudaArch {
  int32_t number = 0;  // 10 * major + minor
  char suffix = '\0';
  bool operator==(const CudaArch&) const = default;
};

struct CudaArchRow {
  CudaArch arch;
  int32_t sm_count;    // of a typical card, where a plan is made without one
  int32_t smem_bytes;  // the most one block may use
  int64_t l2_bytes;
};

inline constexpr CudaArchRow kCudaArchs[] = {
    {{70, '\0'}, 80, 98304, 6 << 20},    {{75, '\0'}, 40, 65536, 4 << 20},     {{80, '\0'}, 108, 166912, 40 << 20},
    {{86, '\0'}, 84, 101376, 6 << 20},   {{87, '\0'}, 16, 166912, 4 << 20},    {{89, '\0'}, 128, 101376, 72 << 20},
    {{90, 'a'}, 132, 232448, 50 << 20},  {{100, 'f'}, 148, 232448, 126 << 20}, {{110, 'f'}, 20, 232448, 32 << 20},
    {{120, 'f'}, 170, 101376, 96 << 20},
};

std::string name(const CudaArch& arch);                         // "90a"
const CudaArchRow* find_cuda_arch(std::string_view name);       // "90a" or "sm_90a"; null: no such row
const CudaArchRow* find_cuda_arch(int32_t compute_capability);  // the best row whose code runs there
std::string cuda_arch_names();                                  // "70, 75, ..."
Caps caps_of(const CudaArchRow& row);                           // of a typical card

}  // namespace fovea
