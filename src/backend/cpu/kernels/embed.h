// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/cpu/kernels/isa.h"
#include "shared/params/embed.h"

namespace fovea::cpu {

// Tokens [first, last); their ids are in range.
void embed_rows(const Isa& isa, const EmbedArgs& args, i64_t first, i64_t last);

}  // namespace fovea::cpu
