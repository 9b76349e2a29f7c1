// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shared/view.h"

namespace fovea {

struct AttentionSpec {
  bool operator==(const AttentionSpec&) const = default;
};

struct AttentionArgs {
  AttentionSpec spec;
};

}  // namespace fovea
