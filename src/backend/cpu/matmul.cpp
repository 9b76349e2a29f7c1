// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/context.h"

namespace fovea::cpu {

Status matmul(BackendContext&, const MatmulPlan&, const MatmulArgs&, const fovea_exec&) {
  return unsupported("matmul: no kernel yet");
}

}  // namespace fovea::cpu
