// SPDX-License-Identifier: Apache-2.0
#include "plan/embed.h"

namespace fovea {

Status make_plan(const EmbedSpec& spec, const Caps& caps, EmbedPlan& plan) {
  if (caps.device_type != FOVEA_CPU) return unsupported("embed: no kernel for this device");
  plan = {.spec = spec, .kernel = "cpu_rows", .workspace = {}};
  return {};
}

std::string explain(const EmbedPlan& plan) {
  return std::string("embed: ") + plan.kernel + ", rows of a " + find_dtype(static_cast<int>(plan.spec.table))->name +
         " table decoded to f32, one task per block of rows, up to " + std::to_string(plan.spec.tokens) + " rows of " +
         std::to_string(plan.spec.n);
}

}  // namespace fovea
