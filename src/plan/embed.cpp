// SPDX-License-Identifier: Apache-2.0
#include "plan/embed.h"

namespace fovea {

Status make_plan(const EmbedSpec&, const Caps&, EmbedPlan&) {
  return unsupported("embed: no kernel yet");
}
std::string explain(const EmbedPlan&) {
  return {};
}

}  // namespace fovea
