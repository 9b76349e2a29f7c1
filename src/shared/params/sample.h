// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shared/view.h"

namespace fovea {

struct SampleSpec {
  bool operator==(const SampleSpec&) const = default;
};

struct SampleArgs {
  SampleSpec spec;
};

}  // namespace fovea
