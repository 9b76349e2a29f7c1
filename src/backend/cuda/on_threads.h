// SPDX-License-Identifier: Apache-2.0
// Compiling many kernels at once.
#pragma once

#include <cstddef>
#include <functional>

#include "base/status.h"

namespace fovea::cuda {

// Runs task(i) for i in [0, n) on this many threads (0: one for each core), this one included. After a failure no new
// task starts; the answer is the failure of the lowest i.
Status on_threads(size_t n, int threads, const std::function<Status(size_t)>& task);

}  // namespace fovea::cuda
