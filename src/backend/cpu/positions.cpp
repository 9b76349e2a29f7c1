// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/positions.h"

namespace fovea::cpu {

Status check_position(const char* config, const RotarySpec& spec, const RotaryInput& in, i64_t token) {
  const i64_t limit = spec.given_tables ? in.cos.shape[0] : kPositionLimit;
  for (i64_t row = 0; row < spec.position_rows; ++row) {
    const i64_t position = index_at(in.positions, row, token);
    if (position >= 0 && position < limit) continue;
    const std::string first = in.positions.shape[0] > 1 ? "[" + std::to_string(row) + "]" : "";
    const std::string why = spec.given_tables ? " (rows of " + std::string(config) + ".cos)" : "";
    return invalid_value("positions" + first + "[" + std::to_string(token) + "]", position,
                         "must be in [0, " + std::to_string(limit) + ")" + why);
  }
  return {};
}

}  // namespace fovea::cpu
