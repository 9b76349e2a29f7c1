// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shared/view.h"

namespace fovea {

struct MergeStatesSpec {
  bool operator==(const MergeStatesSpec&) const = default;
};

struct MergeStatesArgs {
  MergeStatesSpec spec;
};

}  // namespace fovea
