// SPDX-License-Identifier: Apache-2.0
// What the tests ask of the library's inside. Its headers and fovea.hpp have some names in common, so they meet here
// only.
#pragma once

#include <cstdint>
#include <vector>

#include "fovea/fovea.h"

namespace fovea::test {

// The families of attention's kernel table for this device type, by name.
std::vector<const char*> attention_kernels(int32_t device_type);
// Does the context's backend have the operation?
bool has_operation(const fovea_context* context, int32_t op);

}  // namespace fovea::test
