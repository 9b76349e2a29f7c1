// SPDX-License-Identifier: Apache-2.0
#include "plan/merge_states.h"

namespace fovea {

Status make_plan(const MergeStatesSpec& spec, const Caps& caps, MergeStatesPlan& plan) {
  if (caps.device_type != FOVEA_CPU) return unsupported("merge_states: no kernel for this device");
  plan = {.spec = spec, .kernel = "cpu_rows", .workspace = {}};
  return {};
}

std::string explain(const MergeStatesPlan& plan) {
  return std::string("merge_states: ") + plan.kernel + ", " + std::to_string(plan.spec.parts) +
         " parts in order, one task per block of rows, up to " +
         std::to_string(plan.spec.batch * plan.spec.tokens * plan.spec.heads) + " rows of " +
         std::to_string(plan.spec.d);
}

}  // namespace fovea
