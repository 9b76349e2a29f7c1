// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/context.h"

namespace fovea::cpu {

Status rope(BackendContext&, const RopePlan&, const RopeArgs&, const fovea_exec&) {
  return unsupported("rope: no kernel yet");
}

}  // namespace fovea::cpu
