// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shared/view.h"

namespace fovea {

struct KvCopySpec {
  bool operator==(const KvCopySpec&) const = default;
};

struct KvCopyArgs {
  KvCopySpec spec;
};

}  // namespace fovea
