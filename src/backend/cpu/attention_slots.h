// SPDX-License-Identifier: Apache-2.0
// The work list of attention, by arithmetic alone: slot -> block of rows.
#pragma once

#include "backend/cpu/kernels/attention.h"
#include "plan/attention.h"

namespace fovea::cpu {

// Blocks of rows are handed out by slot: block i of sequence b has slot first_slot(b) + i. A ragged sequence whose rows
// begin at row x of all has first slot x / block_rows + b, which leaves room for its last, partial block; so slots need
// no table, and at most one per sequence is empty.
struct AttentionSlots {
  const AttentionArgs& args;
  i64_t least_amx_rows;
  i64_t block_rows;
  i64_t per_sequence;  // padded only
  i64_t count;

  i64_t first(i64_t b) const {
    return args.spec.padded ? b * per_sequence : index_at(args.cu_seqlens_q, b) * args.spec.group / block_rows + b;
  }
  i64_t sequence(i64_t slot) const {
    if (args.spec.padded) return slot / per_sequence;
    i64_t lo = 0, hi = args.spec.batch;  // first(lo) <= slot < first(hi)
    while (hi - lo > 1) {
      const i64_t middle = lo + (hi - lo) / 2;
      (first(middle) <= slot ? lo : hi) = middle;
    }
    return lo;
  }
};

inline AttentionSlots attention_slots(const AttentionArgs& args, const AttentionTiles& tiles,
                                      i64_t least_amx_rows = kNoAmxRows) {
  const i64_t rows = args.spec.tokens * args.spec.group;
  return {.args = args,
          .least_amx_rows = least_amx_rows,
          .block_rows = tiles.block_rows,
          .per_sequence = (rows + tiles.block_rows - 1) / tiles.block_rows,
          .count = attention_block_slots(args.spec, tiles)};
}

// Calls body(task) for the block of rows of a slot, unless it is empty.
template <class Body>
void with_attention_task(const AttentionSlots& slots, i64_t slot, i64_t kv_head, const Body& body) {
  const i64_t b = slots.sequence(slot);
  AttentionTask task{.request = attention_request(slots.args, b), .kv_head = kv_head};
  task.first_row = (slot - slots.first(b)) * slots.block_rows;
  task.rows = static_cast<int>(at_most(task.request.tokens * slots.args.spec.group - task.first_row, slots.block_rows));
  task.amx = task.request.q_len * slots.args.spec.group >= slots.least_amx_rows;
  if (task.rows > 0) body(task);
}

}  // namespace fovea::cpu
