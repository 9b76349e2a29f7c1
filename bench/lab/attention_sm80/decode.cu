// SPDX-License-Identifier: Apache-2.0
#include "shared/dtype.h"

namespace fovea {
constexpr int kDk = 128, kDv = 128, kBlockRows = 16, kWarps = 4, kMTiles = 1, kKeys = 16, kBlocksPerSm = 2, kStages = 3;
constexpr Dtype kKind = Dtype::bf16;
}  // namespace fovea

#include "attention_decode_sm80.cuh"
