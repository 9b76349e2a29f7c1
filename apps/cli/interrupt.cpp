// SPDX-License-Identifier: Apache-2.0
#include "interrupt.h"

#include <csignal>

namespace fovea::app {
namespace {

std::atomic<bool> stop_asked = false;
static_assert(std::atomic<bool>::is_always_lock_free, "set in a signal handler");

}  // namespace

const std::atomic<bool>& catch_interrupt() {
  struct sigaction action = {};
  action.sa_handler = [](int) { stop_asked = true; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  return stop_asked;
}

}  // namespace fovea::app
