// SPDX-License-Identifier: Apache-2.0
// Blocks of parameters and launch shapes; what kernels make of them is tested in tests/emulated and on devices.
#include "backend/cuda/blocks.h"

#include <gtest/gtest.h>

#include "plan/cuda_arch.h"

namespace fovea::cuda {
namespace {

View rows_view(Dtype type, std::initializer_list<i64_t> shape, u64_t address = 0x10000) {
  View v{.data = reinterpret_cast<void*>(address),
         .dtype = type,
         .rank = static_cast<int>(shape.size()),
         .block_bytes = dtype_block_bytes(type)};
  i64_t stride = 1;
  for (int i = v.rank; i-- > 0;) {
    v.shape[i] = shape.begin()[i];
    v.stride[i] = stride;
    stride *= v.shape[i];
  }
  return v;
}

struct Merge {
  MergeStatesPlan plan;
  MergeStatesArgs args;
  explicit Merge(Dtype second = Dtype::bf16, i64_t d = 128) {
    args.spec = {.parts = 2, .out = Dtype::f32, .batch = 2, .tokens = 5, .heads = 3, .d = d};
    args.spec.outs[0] = Dtype::bf16;
    args.spec.outs[1] = second;
    args.out = rows_view(Dtype::f32, {2, 5, 3, d});
    for (int p = 0; p < 2; ++p) {
      args.outs[p] = rows_view(args.spec.outs[p], {2, 5, 3, d});
      args.lses[p] = rows_view(Dtype::f32, {2, 5, 3});
    }
    EXPECT_TRUE(make_plan(args.spec, caps_of(*find_cuda_arch("90a")), plan).ok());
  }
  MergeStatesBlock<kFewParts> block() const { return merge_states_block<kFewParts>(plan, args); }
};

TEST(MergeStatesBlock, IsWideWhereEveryRowIsAlignedAndOfOneType) {
  EXPECT_TRUE(Merge().block().wide);
  EXPECT_FALSE(Merge(Dtype::f16).block().wide);
  EXPECT_FALSE(Merge(Dtype::bf16, 100).block().wide);
  Merge odd;
  odd.args.outs[1].data = reinterpret_cast<void*>(0x10008);
  EXPECT_FALSE(odd.block().wide);
  Merge strided;
  strided.args.out.stride[1] = 3 * 128 + 2;
  EXPECT_FALSE(strided.block().wide);
  strided.args.out.shape[1] = 1;
  EXPECT_TRUE(strided.block().wide) << "a stride that is never taken";
}

TEST(MergeStatesBlock, StridesAreBytes) {
  const MergeStatesBlock<kFewParts> block = Merge().block();
  EXPECT_EQ(block.rows, 30);
  EXPECT_EQ(block.outs[1].head_stride, 256);
  EXPECT_EQ(block.out.token_stride, 3 * 128 * 4);
  EXPECT_EQ(block.lses[0].batch_stride, 60);
  EXPECT_EQ(block.lse.data, nullptr);
  EXPECT_EQ(merge_states_shape(30, 16).grid.x, 2u);
  EXPECT_EQ(merge_states_shape(0, 16).grid.x, 0u);
  EXPECT_EQ(merge_states_shape(i64_t{1} << 40, 8).grid.x, 0x7FFFFFFFu);
}

KvAppendBlock append_block(KvAppendPlan& plan, i64_t tokens, i64_t q_heads, int group = 0) {
  KvAppendSpec spec;
  spec.kv.heads = 8;
  spec.kv.d_k = spec.kv.d_v = 128;
  spec.kv.page_size = 16;
  spec.kv.k.codec = spec.kv.v.codec = Codec::bf16;
  if (group) spec.kv.k = {Codec::fp8, ScaleKind::group, Dtype::f32, group};
  spec.k = spec.v = Dtype::bf16;
  spec.tokens = tokens;
  KvAppendArgs args;
  args.k = args.v = rows_view(Dtype::bf16, {tokens, 8, 128});
  if (q_heads) {
    spec.q = spec.q_out = Dtype::bf16;
    spec.q_heads = q_heads;
    spec.d_q = 128;
    args.q = args.q_out = rows_view(Dtype::bf16, {tokens, q_heads, 128});
  }
  args.spec = spec;
  args.slot_mapping = rows_view(Dtype::i32, {tokens});
  EXPECT_TRUE(make_plan(spec, caps_of(*find_cuda_arch("90a")), plan).ok());
  return kv_append_block(plan, args);
}

// A token of 8 KV heads of 128 dims is 4 tasks of a warp, 32 heads of Q are 8 more.
TEST(KvAppendShape, FewTokensGetManyWarpsEach) {
  KvAppendPlan plan;
  const auto shape = [&](i64_t tokens, i64_t q_heads) {
    return kv_append_shape(plan, append_block(plan, tokens, q_heads), 2000);
  };
  EXPECT_EQ(shape(1, 0).block.x, 4 * 32u);
  EXPECT_EQ(shape(1, 32).block.x, 6 * 32u) << "two rounds of six";
  EXPECT_EQ(shape(1, 32).grid.x, 1u);
  EXPECT_EQ(shape(900, 32).block.x, 2 * 32u);
  EXPECT_EQ(shape(900, 32).grid.x, 900u);
  EXPECT_EQ(shape(8192, 32).block.x, 32u);
  EXPECT_EQ(shape(8192, 32).grid.x, 2000u) << "those that run at once, and walk";
  EXPECT_EQ(shape(0, 0).grid.x, 0u);
  EXPECT_EQ(shape(1, 0).smem_bytes, 0u);
  EXPECT_EQ(kv_append_shape(plan, append_block(plan, 1, 0, 32), 2000).smem_bytes, 4 * 256u);
}

}  // namespace
}  // namespace fovea::cuda
