// SPDX-License-Identifier: Apache-2.0
// Launching a kernel of a plan: no allocation, no lock, no hash; may be captured in a graph.
#pragma once

#include <type_traits>

#include "backend/cuda/context.h"

namespace fovea::cuda {

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
};

struct LaunchShape {
  Dim3 grid = {};           // blocks; a zero means that there is no work
  Dim3 block = {};          // threads
  Dim3 cluster = {};        // blocks, from compute capability 9.0; all ones: none
  unsigned smem_bytes = 0;  // dynamic
  bool early = false;       // programmatic dependent launch, from 9.0: starts before its predecessor has ended, so the
                            // kernel must execute griddepcontrol.wait before it reads what that one wrote
};

// Bytes of kernel parameters that every driver takes, and that those of CUDA 12.1 and later take.
inline constexpr size_t kParameterBytes = 4096, kMostParameterBytes = 32764;
Status check_parameters(const CudaContext& context, const KernelUse& use, size_t bytes);

// An error names the kernel and the driver's call.
Status launch_raw(const CudaContext& context, const KernelUse& use, const LaunchShape& shape, const void* args,
                  void* stream);

// The kernel's one parameter is an Args by value, `const __grid_constant__ Args args`.
template <class Args>
Status launch(const CudaContext& context, const KernelUse& use, const LaunchShape& shape, const Args& args,
              void* stream) {
  static_assert(std::is_trivially_copyable_v<Args> && sizeof(Args) <= kMostParameterBytes);
  if constexpr (sizeof(Args) > kParameterBytes) FOVEA_TRY(check_parameters(context, use, sizeof(Args)));
  return launch_raw(context, use, shape, &args, stream);
}

// The same of a call. Kernels of operations begin with start_grid, so they may be launched early.
template <class Args>
Status launch(const CudaContext& context, const KernelUse& use, LaunchShape shape, const Args& args,
              const fovea_exec& exec) {
  shape.early = (exec.flags & FOVEA_EXEC_EARLY) != 0;
  return launch(context, use, shape, args, exec.stream);
}

// How many blocks of this shape one multiprocessor holds at once.
Status blocks_per_sm(const CudaContext& context, const KernelUse& use, unsigned threads, unsigned smem_bytes, int& out);

}  // namespace fovea::cuda
