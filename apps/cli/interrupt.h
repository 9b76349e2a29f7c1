// SPDX-License-Identifier: Apache-2.0
// Ctrl-C: the first one asks a run to end after its current step, a second one ends the process.
#pragma once

#include <atomic>

namespace fovea::app {

// Set by the first Ctrl-C from now on. To be called once.
const std::atomic<bool>& catch_interrupt();

}  // namespace fovea::app
