// SPDX-License-Identifier: Apache-2.0
// The one exception type of the engine: its message is complete and fits one line.
#pragma once

#include <stdexcept>

namespace fovea::app {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace fovea::app
