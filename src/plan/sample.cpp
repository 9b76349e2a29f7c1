// SPDX-License-Identifier: Apache-2.0
#include "plan/sample.h"

namespace fovea {

std::string edits_text(const SampleSpec& s) {
  std::string text;
  for (const auto& [given, name] : {std::pair{s.penalties, "penalties"}, {s.bias, "bias"}, {s.mask, "bit mask"}}) {
    if (given) text += (text.empty() ? "" : ", ") + std::string(name);
  }
  return text;
}

Status make_plan(const SampleSpec& spec, const Caps& caps, SamplePlan& plan) {
  if (caps.device_type != FOVEA_CPU) return unsupported("sample: no kernel for this device");
  plan = {.spec = spec, .kernel = spec.greedy ? "cpu_argmax" : "cpu_select", .workspace = {}};
  plan.workspace.scratch = static_cast<uint64_t>(sample_scratch_bytes(spec, spec.rows));
  return {};
}

std::string explain(const SamplePlan& plan) {
  const SampleSpec& s = plan.spec;
  std::string text = std::string("sample: ") + plan.kernel;
  if (s.edits()) text += ", a copy of the row with " + edits_text(s);
  text += s.greedy ? ", greedy: the highest logit"
                   : ", exact selection by digits of the logits, then one draw in order of the ids";
  if (s.logprobs || s.top > 0)
    text += s.raw_logprobs ? ", log-probabilities of the logits as given" : ", log-probabilities of what is drawn from";
  text += s.copies() ? "; " + std::to_string(sample_tasks(s.rows)) + " tasks" : ", one task per row";
  return text + ", up to " + std::to_string(s.rows) + " rows of " + std::to_string(s.vocab);
}

}  // namespace fovea
