// SPDX-License-Identifier: Apache-2.0
// Kernels with many compile-time constants: compiled for the host when a case needs them, by the compiler that built
// this program. Their instructions of PTX are those of tests/emulated/device.
#pragma once

#include <string>

#include "emulated/simt.h"
#include "plan/kernel_request.h"

namespace emulated {

using Compiled = void (*)(const void* args, simt::Dim grid, simt::Dim block);

// Throws std::runtime_error with the compiler's words. Kept until the process ends.
Compiled compiled(const fovea::KernelRequest& request, const std::string& args_type);

}  // namespace emulated
