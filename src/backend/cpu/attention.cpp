// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/context.h"

namespace fovea::cpu {

Status attention(BackendContext&, const AttentionPlan&, const AttentionArgs&, const fovea_exec&) {
  return unsupported("attention: no kernel yet");
}

}  // namespace fovea::cpu
