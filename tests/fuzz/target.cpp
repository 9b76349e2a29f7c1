// SPDX-License-Identifier: Apache-2.0
#include "fuzz/target.h"

#include <cstdio>
#include <cstdlib>

namespace fovea::fuzz {

std::vector<Target>& targets() {
  static std::vector<Target> all;
  return all;
}

void demand(bool holds, const char* what, const char* details) {
  if (holds) return;
  std::fprintf(stderr, "demand broken: %s %s\n", what, details);
  std::abort();
}

}  // namespace fovea::fuzz
