// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/context.h"

namespace fovea::cpu {

Status glu(BackendContext&, const GluPlan&, const GluArgs&, const fovea_exec&) {
  return unsupported("glu: no kernel yet");
}

}  // namespace fovea::cpu
