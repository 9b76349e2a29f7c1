// SPDX-License-Identifier: Apache-2.0
#include "plan/attention.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <vector>

#include "backend/cpu/attention_slots.h"

namespace fovea {
namespace {

AttentionSpec decode_spec(int64_t batch, int heads, int kv_heads, int d, int64_t max_len) {
  AttentionSpec spec;
  spec.q = spec.out = Dtype::f32;
  spec.batch = spec.tokens = batch;
  spec.max_q_len = 1;
  spec.heads = heads;
  spec.group = heads / kv_heads;
  spec.kv[0].heads = kv_heads;
  spec.kv[0].d_k = spec.kv[0].d_v = d;
  spec.kv[0].max_len = max_len;
  return spec;
}

AttentionPlan plan_of(const AttentionSpec& spec) {
  AttentionPlan plan;
  const Status status = make_plan(spec, {.device_type = FOVEA_CPU}, plan);
  EXPECT_TRUE(status.ok()) << status.message();
  return plan;
}

TEST(AttentionPlan, BuffersFitTheStackForEveryHeadDim) {
  for (int d_k : {1, 8, 64, 80, 128, 256, 576}) {
    for (int d_v : {1, 64, 128, 512, 576}) {
      AttentionSpec spec = decode_spec(1, 8, 2, d_k, 4096);
      spec.kv[0].d_v = d_v;
      spec.tokens = spec.max_q_len = 1000;
      const AttentionTiles tiles = plan_of(spec).tiles;
      EXPECT_GE(tiles.block_rows, kBlockRowStep);
      EXPECT_LE(tiles.block_rows, kMaxBlockRows);
      EXPECT_EQ(tiles.block_rows % kBlockRowStep, 0);
      EXPECT_LE(attention_buffer_floats(tiles.block_rows, tiles.chunk_keys, d_k, d_v), kBufferFloats);
    }
  }
}

TEST(AttentionPlan, RefusesHeadDimsBeyondItsTable) {
  AttentionPlan plan;
  const Status status = make_plan(decode_spec(1, 1, 1, 577, 16), {.device_type = FOVEA_CPU}, plan);
  EXPECT_EQ(status.code(), FOVEA_UNSUPPORTED);
  EXPECT_EQ(status.message(), "attention: kv.d_k is 577: kernel cpu_tiles serves 1 to 576");
}

TEST(AttentionPlan, SplitSizeIsTheSameForEveryShapeUnlessGiven) {
  for (int64_t batch : {1, 7, 300}) {
    for (int64_t len : {1, 512, 100000}) {
      const AttentionTiles tiles = plan_of(decode_spec(batch, 32, 8, 128, len)).tiles;
      EXPECT_EQ(tiles.split_keys, 512);
      EXPECT_EQ(tiles.max_splits, (len + 511) / 512);
    }
  }
  AttentionSpec spec = decode_spec(1, 8, 8, 64, 1000);
  spec.split_size = 65;
  const AttentionPlan plan = plan_of(spec);
  EXPECT_EQ(plan.tiles.split_keys, 128);
  EXPECT_NE(explain(plan).find("65 rounded up"), std::string::npos);
}

TEST(AttentionPlan, ScratchHoldsEveryPartialOrNone) {
  const AttentionPlan few = plan_of(decode_spec(2, 8, 2, 128, 4096));
  EXPECT_EQ(few.tiles.partials, 1);
  EXPECT_GE(few.workspace.scratch, 2u * 8 * 8 * (128 + 2) * 4);
  EXPECT_EQ(plan_of(decode_spec(2, 8, 2, 128, 512)).workspace.scratch, 0u);     // one split
  EXPECT_EQ(plan_of(decode_spec(512, 8, 2, 128, 4096)).workspace.scratch, 0u);  // enough blocks
  const AttentionPlan huge = plan_of(decode_spec(1, 8, 2, 128, int64_t{1} << 60));
  EXPECT_EQ(huge.tiles.partials, 0);
  EXPECT_EQ(huge.workspace.scratch, 0u);
}

// Every row of every sequence and kv head is in exactly one block, whatever the lengths.
TEST(AttentionSlots, CoverEachRowOnce) {
  const std::vector<std::vector<int64_t>> batches = {
      {1}, {0, 5, 0, 33, 1}, {200, 1, 1, 64}, {0, 0, 0}, {7, 7, 7, 7, 7}};
  for (int group : {1, 3, 7, 8, 64}) {
    for (const auto& lens : batches) {
      std::vector<int64_t> cu = {0};
      for (int64_t n : lens) cu.push_back(cu.back() + n);
      AttentionArgs args;
      args.spec = decode_spec(static_cast<int64_t>(lens.size()), 2 * group, 2, 64, 128);
      args.spec.tokens = cu.back();
      args.spec.max_q_len = cu.back();
      args.cu_seqlens_q = {.data = cu.data(),
                           .dtype = Dtype::i64,
                           .rank = 1,
                           .block_bytes = 8,
                           .shape = {static_cast<i64_t>(cu.size())},
                           .stride = {1}};
      args.kv[0].spec = args.spec.kv[0];
      args.kv[0].spec.page_size = 128;
      args.kv[0].kv_lens = args.cu_seqlens_q;
      if (args.spec.tokens == 0) continue;
      const AttentionTiles tiles = plan_of(args.spec).tiles;
      const cpu::AttentionSlots slots = cpu::attention_slots(args, tiles);
      std::map<std::pair<int64_t, int64_t>, int> seen;
      for (i64_t slot = 0; slot < slots.count; ++slot) {
        cpu::with_attention_task(slots, slot, 0, [&](const cpu::AttentionTask& task) {
          EXPECT_LE(task.rows, tiles.block_rows);
          for (int r = 0; r < task.rows; ++r) ++seen[{task.request.b, task.first_row + r}];
        });
      }
      EXPECT_EQ(seen.size(), static_cast<size_t>(cu.back() * group));
      for (const auto& [row, times] : seen) EXPECT_EQ(times, 1);
    }
  }
}

}  // namespace
}  // namespace fovea
