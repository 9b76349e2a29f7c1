// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shared/view.h"

namespace fovea {

struct KvAppendSpec {
  bool operator==(const KvAppendSpec&) const = default;
};

struct KvAppendArgs {
  KvAppendSpec spec;
};

}  // namespace fovea
