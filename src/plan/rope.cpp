// SPDX-License-Identifier: Apache-2.0
#include "plan/rope.h"

namespace fovea {

Status make_plan(const RopeSpec&, const Caps&, RopePlan&) {
  return unsupported("rope: no kernel yet");
}
std::string explain(const RopePlan&) {
  return {};
}

}  // namespace fovea
