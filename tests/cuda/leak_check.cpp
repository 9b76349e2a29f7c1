// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/temporary.h"

// The leak checker of AddressSanitizer asks this at exit.
extern "C" int __lsan_is_turned_off();   // NOLINT(bugprone-reserved-identifier): the checker's name
extern "C" int __lsan_is_turned_off() {  // NOLINT(bugprone-reserved-identifier)
  return fovea::cuda::nvrtc_was_loaded ? 1 : 0;
}
