// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/positions.h"

#include "ops/rope_config.h"

namespace fovea::cpu {

Status check_position(const char* config, const RotarySpec& spec, const RotaryInput& in, i64_t token) {
  const i64_t limit = position_limit(spec, in);
  for (i64_t row = 0; row < spec.position_rows; ++row) {
    const i64_t position = index_at(in.positions, row, token);
    if (position >= 0 && position < limit) continue;
    return position_out_of_range(config, spec, in, row, token, position);
  }
  return {};
}

}  // namespace fovea::cpu
