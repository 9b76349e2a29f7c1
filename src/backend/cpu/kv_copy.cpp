// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/context.h"

namespace fovea::cpu {

Status kv_copy(BackendContext&, const KvCopyPlan&, const KvCopyArgs&, const fovea_exec&) {
  return unsupported("kv_copy: no kernel yet");
}

}  // namespace fovea::cpu
