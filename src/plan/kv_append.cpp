// SPDX-License-Identifier: Apache-2.0
#include "plan/kv_append.h"

namespace fovea {

Status make_plan(const KvAppendSpec&, const Caps&, KvAppendPlan&) {
  return unsupported("kv_append: no kernel yet");
}
std::string explain(const KvAppendPlan&) {
  return {};
}

}  // namespace fovea
