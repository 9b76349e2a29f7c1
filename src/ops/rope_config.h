// SPDX-License-Identifier: Apache-2.0
// The checks of a rope configuration and its positions, for rope ("config") and kv_append ("rope").
#pragma once

#include "fovea/params.h"
#include "ops/op.h"
#include "shared/rope.h"

namespace fovea {

// `name` is the configuration's name in the parameter struct; d the dims of the vectors it rotates.
Status check_rope_config(const char* name, const fovea_rope_config* config, int64_t d, Place where, RotarySpec& spec);
// After the configuration: positions [tokens], or [rows, tokens] for M-RoPE.
Status check_positions(const fovea_tensor& positions, int64_t tokens, const RotarySpec& spec, Place where);
Status bind_rotary(const char* name, const fovea_rope_config& config, const fovea_tensor& positions,
                   RotaryInput& rotary);

// Positions are in [0, rows of the given tables), or in [0, 2^31).
inline i64_t position_limit(const RotarySpec& spec, const RotaryInput& in) {
  return spec.given_tables ? in.cos.shape[0] : kPositionLimit;
}
Status position_out_of_range(const char* name, const RotarySpec& spec, const RotaryInput& in, i64_t row, i64_t token,
                             i64_t position);

}  // namespace fovea
