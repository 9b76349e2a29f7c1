// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/context.h"

namespace fovea::cpu {

Status embed(BackendContext&, const EmbedPlan&, const EmbedArgs&, const fovea_exec&) {
  return unsupported("embed: no kernel yet");
}

}  // namespace fovea::cpu
