// SPDX-License-Identifier: Apache-2.0
#include "plan/norm.h"

namespace fovea {

Status make_plan(const NormSpec& spec, const Caps& caps, NormPlan& plan) {
  if (caps.device_type != FOVEA_CPU) return unsupported("norm: no kernel for this device");
  plan = {.spec = spec, .kernel = "cpu_rows", .workspace = {}};
  return {};
}

std::string explain(const NormPlan& plan) {
  return std::string("norm: ") + plan.kernel + ", one task per block of rows, up to " + std::to_string(plan.spec.rows) +
         " rows of " + std::to_string(plan.spec.n);
}

}  // namespace fovea
