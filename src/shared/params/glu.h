// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shared/view.h"

namespace fovea {

struct GluSpec {
  bool operator==(const GluSpec&) const = default;
};

struct GluArgs {
  GluSpec spec;
};

}  // namespace fovea
