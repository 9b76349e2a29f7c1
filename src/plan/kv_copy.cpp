// SPDX-License-Identifier: Apache-2.0
#include "plan/kv_copy.h"

namespace fovea {

Status make_plan(const KvCopySpec&, const Caps&, KvCopyPlan&) {
  return unsupported("kv_copy: no kernel yet");
}
std::string explain(const KvCopyPlan&) {
  return {};
}

}  // namespace fovea
