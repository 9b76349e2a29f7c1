// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/context.h"

namespace fovea::cpu {

Status merge_states(BackendContext&, const MergeStatesPlan&, const MergeStatesArgs&, const fovea_exec&) {
  return unsupported("merge_states: no kernel yet");
}

}  // namespace fovea::cpu
