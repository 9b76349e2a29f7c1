// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shared/view.h"

namespace fovea {

struct RopeSpec {
  bool operator==(const RopeSpec&) const = default;
};

struct RopeArgs {
  RopeSpec spec;
};

}  // namespace fovea
