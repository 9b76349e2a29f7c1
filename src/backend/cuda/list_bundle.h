// SPDX-License-Identifier: Apache-2.0
// A bundle as text, for people.
#pragma once

#include <string>

#include "base/status.h"

namespace fovea::cuda {

// As fovea_bundle_kernels.
Status list_bundle(const std::string& path, std::string& out);

}  // namespace fovea::cuda
