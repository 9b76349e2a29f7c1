// SPDX-License-Identifier: Apache-2.0
#include "plan/sample.h"

#include <algorithm>

namespace fovea {

Status make_plan(const SampleSpec& spec, const Caps& caps, SamplePlan& plan) {
  if (caps.device_type != FOVEA_CPU) return unsupported("sample: no kernel for this device");
  plan = {.spec = spec, .kernel = spec.greedy ? "cpu_argmax" : "cpu_select", .workspace = {}};
  if (spec.greedy || spec.rows == 0) return {};
  const int64_t tasks = std::min<int64_t>(spec.rows, kSampleTasks);
  plan.workspace.scratch = static_cast<uint64_t>(tasks * 3 * sample_padded_vocab(spec.vocab)) * 4 + 64;
  return {};
}

std::string explain(const SamplePlan& plan) {
  const SampleSpec& s = plan.spec;
  const std::string how = s.greedy ? ", greedy: the highest logit, one task per row"
                                   : ", exact selection by digits of the logits, then one draw in order of the ids; " +
                                         std::to_string(std::min<int64_t>(s.rows, kSampleTasks)) + " tasks";
  return std::string("sample: ") + plan.kernel + how + ", up to " + std::to_string(s.rows) + " rows of " +
         std::to_string(s.vocab);
}

}  // namespace fovea
