// SPDX-License-Identifier: Apache-2.0
#pragma once

struct fovea_context;

namespace emulated {

// The context's operations that have device kernels are those kernels from now on, run on the host.
void replace_operations(fovea_context* context);

// The row of attention's kernel table that serves from now on; null: the architecture's own. At first FOVEA_EMULATE.
void choose_kernel(const char* name);
int attention_launches();  // so far

}  // namespace emulated
