// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace fovea::ptx {

inline unsigned add_acquire_release(unsigned* counter, unsigned x) {
  return atomicAdd(counter, x);
}

}  // namespace fovea::ptx
