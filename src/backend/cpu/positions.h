// SPDX-License-Identifier: Apache-2.0
// The values of positions, for rope ("config") and kv_append ("rope").
#pragma once

#include "base/status.h"
#include "shared/rope.h"

namespace fovea::cpu {

// One token: every position row in [0, rows of the given tables), or in [0, 2^31).
Status check_position(const char* config, const RotarySpec& spec, const RotaryInput& in, i64_t token);

}  // namespace fovea::cpu
