// SPDX-License-Identifier: Apache-2.0
// The dynamic shared memory of a block, aligned to 16 bytes.
#pragma once

namespace fovea {

#if defined(__CUDA_ARCH__)
inline char* dynamic_smem() {
  extern __shared__ uint4 fovea_dynamic_smem[];
  return reinterpret_cast<char*>(fovea_dynamic_smem);
}
#else
char* dynamic_smem();  // kernels that tests run on the host
#endif

}  // namespace fovea
