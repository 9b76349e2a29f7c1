// SPDX-License-Identifier: Apache-2.0
#pragma once

struct fovea_context;

namespace emulated {

// The context's operations that have device kernels are those kernels from now on, run on the host.
void replace_operations(fovea_context* context);

}  // namespace emulated
