// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/cpu/kernels/isa.h"
#include "shared/params/attention.h"

namespace fovea::cpu {

// A block of rows of one sequence and kv head.
struct AttentionTask {
  AttentionRequest request;
  i64_t kv_head = 0;
  i64_t first_row = 0;  // of query * group + head
  int rows = 0;         // at most tiles.block_rows
  bool amx = false;     // by AMX tiles: Q, K and V are plain bf16
};

// Partial results, one per row and split: d_v sums, then the maximum and the sum of weights.
struct AttentionPartials {
  float* data = nullptr;
  i64_t floats = 0;  // of one
  i64_t splits = 0;  // per row
  float* at(i64_t row, i64_t split) const { return data + (row * splits + split) * floats; }
};

// The whole block: every split in order, then the outputs.
void attention_block(const Isa& isa, const AttentionArgs& args, const AttentionTiles& tiles, const AttentionTask& task);
// One split of the block, left in `partials`; and the outputs from all splits, with the same bits as attention_block.
void attention_split(const Isa& isa, const AttentionArgs& args, const AttentionTiles& tiles, const AttentionTask& task,
                     i64_t split, const AttentionPartials& partials);
void attention_merge(const Isa& isa, const AttentionArgs& args, const AttentionTiles& tiles, const AttentionTask& task,
                     const AttentionPartials& partials);

}  // namespace fovea::cpu
