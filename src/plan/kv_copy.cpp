// SPDX-License-Identifier: Apache-2.0
#include "plan/kv_copy.h"

namespace fovea {

Status make_plan(const KvCopySpec& spec, const Caps& caps, KvCopyPlan& plan) {
  if (caps.device_type != FOVEA_CPU) return unsupported("kv_copy: no kernel for this device");
  plan = {.spec = spec, .kernel = "cpu_pages", .workspace = {}};
  if (spec.copies > kCopiesWithoutScratch) {  // a sorted list of destinations, and room to align it
    plan.workspace.scratch = static_cast<uint64_t>(spec.copies + 1) * sizeof(int64_t);
  }
  return {};
}

std::string explain(const KvCopyPlan& plan) {
  const KvSpec& kv = plan.spec.kv;
  return std::string("kv_copy: ") + plan.kernel + ", one task per page and stream, up to " +
         std::to_string(plan.spec.copies) + " pages of " + std::to_string(kv.page_size) + " tokens and " +
         std::to_string(kv.heads) + " heads";
}

}  // namespace fovea
