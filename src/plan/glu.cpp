// SPDX-License-Identifier: Apache-2.0
#include "plan/glu.h"

namespace fovea {

Status make_plan(const GluSpec&, const Caps&, GluPlan&) {
  return unsupported("glu: no kernel yet");
}
std::string explain(const GluPlan&) {
  return {};
}

}  // namespace fovea
