// SPDX-License-Identifier: Apache-2.0
#include "plan/verify.h"

#include "plan/sample.h"

namespace fovea {

Status make_plan(const VerifySpec& spec, const Caps& caps, VerifyPlan& plan) {
  if (caps.device_type != FOVEA_CPU) return unsupported("verify: no kernel for this device");
  plan = {.spec = spec, .kernel = spec.target.greedy ? "cpu_match" : "cpu_walk", .workspace = {}};
  plan.workspace.scratch = static_cast<uint64_t>(sample_scratch_bytes(spec.target, spec.requests));
  return {};
}

std::string explain(const VerifyPlan& plan) {
  const VerifySpec& s = plan.spec;
  std::string text = std::string("verify: ") + plan.kernel + (s.tree ? ", trees" : ", chains");
  text += s.target.greedy ? ", greedy: drafts that are the highest logit"
          : s.drawn       ? ", rejection sampling against the distributions of the drafts"
                          : ", rejection sampling of drafts that were not drawn";
  if (s.target.edits()) text += ", on rows with " + edits_text(s.target);
  return text + "; " + std::to_string(sample_tasks(s.requests)) + " tasks, up to " + std::to_string(s.requests) +
         " requests and " + std::to_string(s.target.rows) + " nodes of " + std::to_string(s.target.vocab);
}

}  // namespace fovea
