// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/context.h"

namespace fovea::cpu {

Status kv_append(BackendContext&, const KvAppendPlan&, const KvAppendArgs&, const fovea_exec&) {
  return unsupported("kv_append: no kernel yet");
}

}  // namespace fovea::cpu
