// SPDX-License-Identifier: Apache-2.0
#include "base/env.h"

#include <cstdlib>

namespace fovea {

std::string env(Env id) {
  for (const EnvRow& row : kEnvironment) {
    if (row.id != id) continue;
    const char* value = std::getenv(row.name);
    return value ? value : "";
  }
  return "";
}

}  // namespace fovea
