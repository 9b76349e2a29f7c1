// SPDX-License-Identifier: Apache-2.0
#include "shared/dtype.h"

namespace fovea {
constexpr int kDk = 128, kDv = 128, kBlockRows = 128, kWarps = 4, kMTiles = 2, kKeys = 64, kBlocksPerSm = 2;
constexpr Dtype kKind = Dtype::bf16;
}  // namespace fovea

#include "attention_prefill_sm80.cuh"
