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

}  // namespace fovea
