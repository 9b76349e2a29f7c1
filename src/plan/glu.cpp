// SPDX-License-Identifier: Apache-2.0
#include "plan/glu.h"

namespace fovea {

Status make_plan(const GluSpec& spec, const Caps& caps, GluPlan& plan) {
  if (caps.device_type != FOVEA_CPU) return unsupported("glu: no kernel for this device");
  plan = {.spec = spec, .kernel = "cpu_rows", .workspace = {}};
  return {};
}

std::string explain(const GluPlan& plan) {
  constexpr const char* kKinds[] = {"silu", "gelu_tanh", "gelu_erf", "clamped_swiglu"};
  return std::string("glu: ") + plan.kernel + ", " + kKinds[static_cast<int>(plan.spec.kind)] +
         ", one task per stretch of a row or block of rows, up to " + std::to_string(plan.spec.tokens) + " rows of " +
         std::to_string(plan.spec.n);
}

}  // namespace fovea
