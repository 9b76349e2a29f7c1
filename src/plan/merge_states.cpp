// SPDX-License-Identifier: Apache-2.0
#include "plan/merge_states.h"

namespace fovea {

Status make_plan(const MergeStatesSpec&, const Caps&, MergeStatesPlan&) {
  return unsupported("merge_states: no kernel yet");
}
std::string explain(const MergeStatesPlan&) {
  return {};
}

}  // namespace fovea
