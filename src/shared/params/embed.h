// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shared/view.h"

namespace fovea {

struct EmbedSpec {
  bool operator==(const EmbedSpec&) const = default;
};

struct EmbedArgs {
  EmbedSpec spec;
};

}  // namespace fovea
