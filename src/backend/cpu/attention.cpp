// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/kernels/attention.h"

#include "backend/cpu/attention_slots.h"
#include "backend/cpu/context.h"
#include "backend/cpu/kernels/attention_amx.h"
#include "ops/attention_values.h"

namespace fovea::cpu {

namespace {

constexpr bool amx_floats_are_equal() {
  for (i64_t d_k = 1; d_k <= 256; d_k += 17) {
    for (i64_t d_v = 1; d_v <= 256; d_v += 17) {
      for (i64_t rows : {16, 48, 64}) {
        if (attention_amx_floats(rows, d_k, d_v) != amx_buffer_floats(rows, d_k, d_v)) return false;
      }
    }
  }
  return true;
}
static_assert(amx_floats_are_equal());
static_assert(amx_buffer_floats(kBlockRowStep, 256, 256) <= kBufferFloats);

// The most splits that a sequence of this call has.
i64_t most_splits(const AttentionArgs& args, i64_t split_keys) {
  i64_t most = 0;
  for (i64_t b = 0; b < args.spec.batch; ++b) {
    const AttentionRequest r = attention_request(args, b);
    i64_t splits = 0;
    for (int s = 0; s < args.spec.segments; ++s) splits += (r.segment[s].held + split_keys - 1) / split_keys;
    most = at_least(most, splits);
  }
  return most;
}

float* aligned_floats(void* scratch) {
  const auto p = reinterpret_cast<uintptr_t>(scratch);
  return reinterpret_cast<float*>((p + alignof(float) - 1) / alignof(float) * alignof(float));
}

void run_with_partials(const CpuContext& c, const AttentionPlan& plan, const AttentionArgs& args,
                       const AttentionSlots& slots, i64_t splits, void* scratch) {
  const AttentionPartials partials{
      .data = aligned_floats(scratch), .floats = attention_partial_floats(args.spec), .splits = splits};
  const i64_t blocks = slots.count * args.spec.kv[0].heads;
  // Heads of the same tokens follow each other: they are often neighbours in memory.
  const i64_t heads = args.spec.kv[0].heads;
  c.parallel_for(blocks * splits, [&](int64_t i) {
    with_attention_task(slots, i / heads / splits, i % heads, [&](const AttentionTask& task) {
      attention_split(c.isa, args, plan.tiles, task, i / heads % splits, partials);
    });
  });
  c.parallel_for(blocks, [&](int64_t i) {
    with_attention_task(slots, i % slots.count, i / slots.count,
                        [&](const AttentionTask& task) { attention_merge(c.isa, args, plan.tiles, task, partials); });
  });
}

}  // namespace

Status attention(BackendContext& context, const AttentionPlan& plan, const AttentionArgs& args,
                 const fovea_exec& exec) {
  if (args.spec.tokens == 0 || args.spec.batch == 0) return check_attention_values(args);
  FOVEA_TRY(check_attention_values(args));
  const CpuContext& c = cpu(context);
  const AttentionSlots slots = attention_slots(args, plan.tiles, plan.least_amx_rows);
  const i64_t splits = plan.tiles.partials ? most_splits(args, plan.tiles.split_keys) : 1;
  if (splits > 1) {
    run_with_partials(c, plan, args, slots, splits, exec.scratch);
    return {};
  }
  // Where sequences have several blocks, those of one kv head follow each other, so that its keys stay in a cache; else
  // the heads of a sequence do, as above. The longest blocks of a causal sequence come first.
  const i64_t heads = args.spec.kv[0].heads;
  const bool one_block = args.spec.max_q_len * args.spec.group <= plan.tiles.block_rows;
  c.parallel_for(slots.count * heads, [&](int64_t i) {
    const i64_t slot = one_block ? i / heads : i % slots.count, head = one_block ? i % heads : i / slots.count;
    with_attention_task(slots, slots.count - 1 - slot, head,
                        [&](const AttentionTask& task) { attention_block(c.isa, args, plan.tiles, task); });
  });
  return {};
}

}  // namespace fovea::cpu
