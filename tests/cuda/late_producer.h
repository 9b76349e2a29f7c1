// SPDX-License-Identifier: Apache-2.0
// A kernel that brings a call's operands late and lets early launches start before them.
#pragma once

#include "support/mirror.h"

namespace fovea::test {

class LateProducer {
 public:
  virtual ~LateProducer() = default;
  // One for the process; null where there is no device of compute capability 9.0 or no compiler.
  static const LateProducer* instance();
  virtual void run(const Mirror::LateCopy& copy, void* stream) const = 0;  // may be captured
};

}  // namespace fovea::test
