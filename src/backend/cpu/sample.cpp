// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/context.h"

namespace fovea::cpu {

Status sample(BackendContext&, const SamplePlan&, const SampleArgs&, const fovea_exec&) {
  return unsupported("sample: no kernel yet");
}

}  // namespace fovea::cpu
