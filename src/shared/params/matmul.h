// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shared/view.h"

namespace fovea {

struct MatmulSpec {
  bool operator==(const MatmulSpec&) const = default;
};

struct MatmulArgs {
  MatmulSpec spec;
};

}  // namespace fovea
