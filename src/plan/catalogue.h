// SPDX-License-Identifier: Apache-2.0
// The kernels that are compiled ahead of time. Each operation with device kernels adds its rows here, made by the same
// function that its plans use, so that a plan of the catalogue never misses the bundle.
#pragma once

#include <vector>

#include "plan/kernel_request.h"

namespace fovea {

// A kernel without an operation that shows that a device, its driver and a bundle work together.
KernelRequest selftest_kernel(const CudaArch& arch, int32_t block);

// Every kernel of a bundle for this architecture, without duplicates.
std::vector<KernelRequest> catalogue(const CudaArch& arch);

// The first kernel of each file and entry: one of every operation and family.
std::vector<KernelRequest> sample(const std::vector<KernelRequest>& kernels);

}  // namespace fovea
