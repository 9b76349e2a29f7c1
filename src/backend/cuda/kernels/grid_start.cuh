// SPDX-License-Identifier: Apache-2.0
// The first lines of a kernel that a caller may launch early (FOVEA_EXEC_EARLY). Not launched early, they cost two
// instructions; before SM90, none.
#pragma once

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#include "backend/cuda/kernels/ptx/dependent.cuh"
#endif

namespace fovea {

// Before it, a kernel touches nothing but its parameters.
inline void start_grid() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  // At once: blocks of the next grid then stand ready when those of this one end.
  ptx::let_next_grid_start();
  ptx::wait_for_grids_ahead();
#endif
}

}  // namespace fovea
