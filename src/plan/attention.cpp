// SPDX-License-Identifier: Apache-2.0
#include "plan/attention.h"

namespace fovea {

Status make_plan(const AttentionSpec&, const Caps&, AttentionPlan&) {
  return unsupported("attention: no kernel yet");
}
std::string explain(const AttentionPlan&) {
  return {};
}

}  // namespace fovea
