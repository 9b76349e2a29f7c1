// SPDX-License-Identifier: Apache-2.0
// Weights of block types, decoded from their layout in GGUF files.
#pragma once

#include <cstdint>
#include <vector>

namespace fovea::oracle {

// The k weights of a packed row: of an element type, or whole blocks of a block type.
std::vector<double> weights64(int32_t dtype, const void* row, int64_t k);

}  // namespace fovea::oracle
