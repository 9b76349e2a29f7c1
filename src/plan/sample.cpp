// SPDX-License-Identifier: Apache-2.0
#include "plan/sample.h"

namespace fovea {

Status make_plan(const SampleSpec&, const Caps&, SamplePlan&) {
  return unsupported("sample: no kernel yet");
}
std::string explain(const SamplePlan&) {
  return {};
}

}  // namespace fovea
