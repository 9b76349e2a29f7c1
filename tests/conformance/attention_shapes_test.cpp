// SPDX-License-Identifier: Apache-2.0
// Grids of shapes: group sizes, head dims, page sizes, lengths, layouts of the hosts, element types and scale kinds.
#include "oracle/numbers.h"
#include "support/attention_cases.h"
#include "support/check.h"

namespace fovea::test {
namespace {

constexpr int32_t kFloats[] = {FOVEA_F32, FOVEA_F16, FOVEA_BF16};

// In parts: a device compiles its kernels for each head dim, and processes share the tests among them.
constexpr int kParts = 8;
class HeadDims : public testing::TestWithParam<int> {};

TEST_P(HeadDims, OfKAndV) {
  Rng rng = test_rng();
  std::vector<int32_t> dims = {1, 2, 4, 7};
  for (int32_t d = 16; d <= 576; d += 8) dims.push_back(d);
  for (size_t i = static_cast<size_t>(GetParam()); i < dims.size(); i += kParts) {
    const int32_t d = dims[i];
    AttentionCase c = simple_case({1, 3}, {19, 8}, 4, 2, d, d);
    c.options.mask = FOVEA_MASK_CAUSAL;
    c.q_dtype = c.out_dtype = kFloats[d / 8 % 3];
    c.kv[0].k.codec = c.kv[0].v.codec = c.q_dtype;  // the codecs have the numbers of their types
    c.kv[0].page_size = 5;
    ASSERT_TRUE(check_attention(c, rng)) << "d " << d;
  }
}
INSTANTIATE_TEST_SUITE_P(AttentionShape, HeadDims, testing::Range(0, kParts));

TEST(AttentionShape, HeadDimsOfVOtherThanOfK) {
  Rng rng = test_rng();
  constexpr std::pair<int32_t, int32_t> kUneven[] = {{320, 256}, {192, 128}, {576, 512},
                                                     {64, 128},  {16, 576},  {512, 512}};
  for (const auto& [d_k, d_v] : kUneven) {
    ASSERT_TRUE(check_attention(simple_case({2}, {21}, 6, 3, d_k, d_v), rng));
  }
}

TEST(BugCorpus, D01_D04_GroupSizes) {
  Rng rng = test_rng();
  std::vector<int32_t> groups = {20, 32, 64};
  for (int32_t g = 1; g <= 16; ++g) groups.push_back(g);
  for (int32_t group : groups) {
    for (int32_t kv_heads : {1, 3}) {
      AttentionCase c = simple_case({1, 2}, {23, 9}, group * kv_heads, kv_heads, 32, 32);
      c.options.mask = FOVEA_MASK_CAUSAL;
      ASSERT_TRUE(check_attention(c, rng));
    }
  }
  ASSERT_TRUE(check_attention(simple_case({1}, {40}, 28, 4, 128, 128), rng));
}

TEST(BugCorpus, D02_GroupSevenWithSplitKv) {
  Rng rng = test_rng();
  for (int32_t split : {16, 17, 64, 1000}) {
    AttentionCase c = simple_case({1, 3, 9}, {300, 65, 129}, 14, 2, 64, 64);
    c.options.mask = FOVEA_MASK_CAUSAL;
    c.options.split_size = split;
    c.kv[0].page_size = 3;
    ASSERT_TRUE(check_attention(c, rng));
  }
}

// Page sizes give identical bits: only the addresses differ.
TEST(BugCorpus, B14_PageSizes) {
  const uint64_t seed = test_seed();
  const std::vector<Backend>& all = backends(FOVEA_OP_ATTENTION);
  std::vector<std::vector<std::byte>> first(all.size());
  for (int32_t page : {1, 2, 3, 5, 16, 48, 64, 128, 256, 1000}) {
    AttentionCase c = simple_case({1, 5}, {513, 130}, 4, 2, 64, 64);
    c.options.mask = FOVEA_MASK_CAUSAL;
    c.options.batch_invariant = 1;  // else a larger capacity may be split otherwise
    c.kv[0].k.codec = c.kv[0].v.codec = FOVEA_CODEC_F16;
    c.kv[0].page_size = page;
    Rng rng(seed);
    AttentionProblem problem(c, rng);
    Rng values(seed + 1);  // the same tokens whatever the pages
    fill(*problem.caches[0], c.kv[0], values, Values::normal, Values::normal, [](int64_t, int64_t) { return true; });
    problem.q.assign(draw(values, Values::normal, problem.q.size(), 1));
    ASSERT_TRUE(check_attention(problem)) << "page size " << page;
    for (size_t i = 0; i < all.size(); ++i) {
      RUN_OR_CONTINUE(run(all[i], problem.params));
      if (first[i].empty()) first[i] = problem.result_bits();
      EXPECT_EQ(first[i], problem.result_bits()) << "page size " << page << ", " << all[i].name;
    }
  }
}

TEST(AttentionShape, Lengths) {
  Rng rng = test_rng();
  std::vector<int64_t> lens;
  for (int64_t edge : {16, 32, 64, 128, 256}) lens.insert(lens.end(), {edge - 1, edge, edge + 1});
  lens.insert(lens.end(), {0, 1, 2});
  const std::vector<int64_t> decode(lens.size(), 1);
  for (int32_t split : {0, 32}) {
    AttentionCase c = simple_case(decode, lens, 4, 2, 32, 32);
    c.options.mask = FOVEA_MASK_CAUSAL;
    c.options.split_size = split;
    ASSERT_TRUE(check_attention(c, rng));
    c.q_lens = {0, 1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 2, 5, 7, 129, 3, 1, 0};
    ASSERT_TRUE(check_attention(c, rng));
  }
}

// Kernels may serve row blocks of many sequences in an order of their own: each of them once.
TEST(AttentionShape, ManySequencesOfManyLengths) {
  Rng rng = test_rng();
  std::vector<int64_t> many(70), few = {280, 0, 1, 90, 200};
  for (int64_t& n : many) n = rng.chance(0.25) ? 0 : rng.integer(1, 60);
  for (const std::vector<int64_t>& lens : {many, few, std::vector<int64_t>(40, 17)}) {
    AttentionCase c = simple_case(lens, lens, 16, 1, 16, 16);
    c.options.mask = FOVEA_MASK_CAUSAL;
    ASSERT_TRUE(check_attention(c, rng)) << lens.size() << " sequences";
  }
  AttentionCase padded = simple_case(std::vector<int64_t>(40, 21), std::vector<int64_t>(40, 30), 8, 2, 16, 16);
  padded.padded = true;
  padded.pad_back = 4;
  EXPECT_TRUE(check_attention(padded, rng));
}

TEST(AttentionShape, EmptyBatchesAndTotals) {
  Rng rng = test_rng();
  for (KvIndex index : {KvIndex::table, KvIndex::csr, KvIndex::contiguous, KvIndex::ragged}) {
    AttentionCase c = simple_case({}, {}, 4, 2, 64, 64);  // batch 0
    c.kv[0].index = index;
    EXPECT_TRUE(check_attention(c, rng));
    c.q_lens = {0, 0};  // no query
    c.kv[0].lens = {5, 0};
    EXPECT_TRUE(check_attention(c, rng));
    c.q_lens = {2, 1};  // no key
    c.kv[0].lens = {0, 0};
    EXPECT_TRUE(check_attention(c, rng));
    c.padded = true;
    c.pad_back = 1;
    EXPECT_TRUE(check_attention(c, rng));
  }
}

TEST(AttentionShape, EveryLayoutOfTheHosts) {
  Rng rng = test_rng();
  for (KvLayout layout : kPlainLayouts) {
    for (KvIndex index : {KvIndex::table, KvIndex::csr, KvIndex::contiguous, KvIndex::ragged}) {
      if (layout == KvLayout::one_pool && index != KvIndex::table && index != KvIndex::csr) continue;
      for (int32_t page : {1, 8}) {
        AttentionCase c = simple_case({2, 1, 4}, {17, 0, 9}, 6, 3, 32, 32);
        c.options.mask = FOVEA_MASK_CAUSAL;
        c.kv[0].layout = layout;
        c.kv[0].index = index;
        c.kv[0].page_size = page;
        c.kv[0].page_pad = layout == KvLayout::halves ? 0 : 64;
        c.kv[0].index_dtype = c.index_dtype = page == 1 ? FOVEA_I32 : FOVEA_I64;
        c.kv[0].place = page == 1 ? Place::end : Place::begin;
        c.kv[0].k.codec = c.kv[0].v.codec = FOVEA_CODEC_BF16;
        c.any_layout = true;
        ASSERT_TRUE(check_attention(c, rng));
      }
    }
  }
}

TEST(AttentionShape, SeparatePageTableOfV) {
  Rng rng = test_rng();
  for (KvIndex index : {KvIndex::table, KvIndex::csr}) {
    AttentionCase c = simple_case({2, 1}, {37, 50}, 4, 2, 32, 64);
    c.kv[0].index = index;
    c.kv[0].v_table = true;
    ASSERT_TRUE(check_attention(c, rng));
  }
}

TEST(AttentionShape, EveryCodecAndScaleKind) {
  Rng rng = test_rng();
  for (int32_t k : {FOVEA_CODEC_F32, FOVEA_CODEC_F16, FOVEA_CODEC_BF16, FOVEA_CODEC_FP8}) {
    for (int32_t v : {FOVEA_CODEC_F32, FOVEA_CODEC_F16, FOVEA_CODEC_BF16, FOVEA_CODEC_FP8}) {
      for (int32_t kind = FOVEA_SCALE_NONE; kind <= FOVEA_SCALE_GROUP; ++kind) {
        const auto side = [&](int32_t codec, int32_t scale) -> SideSpec {
          if (codec == FOVEA_CODEC_FP8 && scale == FOVEA_SCALE_NONE) scale = FOVEA_SCALE_TENSOR;
          return {codec, scale, kFloats[rng.integer(0, 2)], scale == FOVEA_SCALE_GROUP ? 16 : 0};
        };
        AttentionCase c = simple_case({1, 4}, {33, 70}, 4, 2, 64, 48);
        c.options.mask = FOVEA_MASK_CAUSAL;
        c.kv[0].k = side(k, kind);
        c.kv[0].v = side(v, FOVEA_SCALE_GROUP - kind);
        c.q_dtype = kFloats[rng.integer(0, 2)];
        ASSERT_TRUE(check_attention(c, rng));
      }
    }
  }
}

TEST(AttentionShape, EveryQueryAndOutputType) {
  Rng rng = test_rng();
  for (int32_t q : {FOVEA_F32, FOVEA_F16, FOVEA_BF16, FOVEA_E4M3}) {
    for (int32_t out : {FOVEA_F32, FOVEA_F16, FOVEA_BF16, FOVEA_E4M3}) {
      for (int32_t codec : {FOVEA_CODEC_F32, FOVEA_CODEC_F16, FOVEA_CODEC_BF16, FOVEA_CODEC_FP8}) {
        AttentionCase c = simple_case({3, 1}, {40, 9}, 4, 1, 32, 32);
        c.options.mask = FOVEA_MASK_CAUSAL;
        c.q_dtype = q;
        c.out_dtype = out;
        if (q == FOVEA_E4M3) c.options.q_scale = 0.125f;
        if (out == FOVEA_E4M3) c.options.out_scale = 0.0625f;
        const int32_t scale = codec == FOVEA_CODEC_FP8 ? FOVEA_SCALE_HEAD : FOVEA_SCALE_NONE;
        c.kv[0].k = c.kv[0].v = {codec, scale, FOVEA_F32, 0};
        c.lse = rng.chance(0.5);
        c.any_layout = true;
        ASSERT_TRUE(check_attention(c, rng));
      }
    }
  }
}

TEST(AttentionShape, ScalesInsideThePage) {
  Rng rng = test_rng();
  for (int32_t kind : {FOVEA_SCALE_TOKEN_HEAD, FOVEA_SCALE_GROUP}) {
    AttentionCase c = simple_case({2, 1}, {35, 16}, 8, 2, 64, 64);
    c.kv[0].layout = KvLayout::scales_in_page;
    c.kv[0].k = c.kv[0].v = {FOVEA_CODEC_FP8, kind, FOVEA_F32, kind == FOVEA_SCALE_GROUP ? 32 : 0};
    c.q_dtype = c.out_dtype = FOVEA_BF16;
    ASSERT_TRUE(check_attention(c, rng));
  }
}

AttentionCase mla(SideSpec k, int32_t d_rope, KvLayout layout) {
  AttentionCase c = simple_case({1, 2}, {70, 33}, 16, 1, 576, 512);
  c.q_dtype = c.out_dtype = FOVEA_BF16;
  c.options.mask = FOVEA_MASK_CAUSAL;
  c.kv[0].v_in_k = true;
  c.kv[0].k = k;
  c.kv[0].d_rope = d_rope;
  c.kv[0].layout = layout;
  c.kv[0].page_size = 64;
  return c;
}

TEST(AttentionShape, MlaValuesInsideKeys) {
  Rng rng = test_rng();
  ASSERT_TRUE(check_attention(mla({FOVEA_CODEC_BF16, FOVEA_SCALE_NONE, 0, 0}, 0, KvLayout::nhd), rng));
  ASSERT_TRUE(check_attention(mla({FOVEA_CODEC_BF16, FOVEA_SCALE_NONE, 0, 0}, 64, KvLayout::nhd), rng));
  ASSERT_TRUE(check_attention(mla({FOVEA_CODEC_FP8, FOVEA_SCALE_TENSOR, FOVEA_F32, 0}, 64, KvLayout::nhd), rng));
}

// DeepSeek's 656 bytes a token: 512 e4m3, four f32 scales, 64 bf16.
TEST(AttentionShape, Record656) {
  Rng rng = test_rng();
  AttentionCase c = mla({FOVEA_CODEC_FP8, FOVEA_SCALE_GROUP, FOVEA_F32, 128}, 64, KvLayout::record);
  AttentionProblem problem(c, rng);
  EXPECT_EQ(problem.params.kv->k.data.token_stride, 656);
  EXPECT_EQ(
      static_cast<std::byte*>(problem.params.kv->k_rope.base) - static_cast<std::byte*>(problem.params.kv->k.data.base),
      528);
  EXPECT_TRUE(check_attention(problem));
}

TEST(AttentionShape, RopeTailOfEachType) {
  Rng rng = test_rng();
  for (int32_t dtype : kFloats) {
    AttentionCase c = simple_case({3}, {29}, 4, 2, 48, 32);
    c.kv[0].d_rope = 16;
    c.kv[0].rope_dtype = dtype;
    c.kv[0].k = {FOVEA_CODEC_FP8, FOVEA_SCALE_TOKEN_HEAD, FOVEA_F16, 0};
    c.kv[0].v = {FOVEA_CODEC_F16, FOVEA_SCALE_NONE, 0, 0};
    ASSERT_TRUE(check_attention(c, rng));
  }
}

// A sink page in 16 bits, codes, an open page in 16 bits; and a shared prefix.
TEST(AttentionShape, Segments) {
  Rng rng = test_rng();
  for (int32_t mask :
       std::initializer_list<int32_t>{FOVEA_MASK_NONE, FOVEA_MASK_CAUSAL, FOVEA_MASK_WINDOW, FOVEA_MASK_CHUNK}) {
    AttentionCase c = simple_case({1, 6, 2}, {16, 0, 5}, 4, 2, 64, 64);
    c.options.mask = mask;
    if (mask == FOVEA_MASK_WINDOW) c.options.window_left = 25;
    if (mask == FOVEA_MASK_CHUNK) c.options.chunk_size = 13;
    c.kv[0].k.codec = c.kv[0].v.codec = FOVEA_CODEC_F16;
    c.kv.push_back(c.kv[0]);
    c.kv[1].lens = {70, 3, 0};
    c.kv[1].k = c.kv[1].v = {FOVEA_CODEC_FP8, FOVEA_SCALE_TOKEN_HEAD, FOVEA_F32, 0};
    c.kv[1].index = KvIndex::csr;
    ASSERT_TRUE(check_attention(c, rng));
    c.kv.push_back(c.kv[0]);
    c.kv[2].lens = {9, 2, 1};
    c.kv[2].index = KvIndex::contiguous;
    c.alibi = mask == FOVEA_MASK_CAUSAL;
    c.sinks = mask == FOVEA_MASK_WINDOW;
    if (mask == FOVEA_MASK_NONE) c.mask_lens = {40, 3, 6};
    ASSERT_TRUE(check_attention(c, rng));
  }
}

// Every shard's part, merged, is the whole; positions stay global for every mask and for ALiBi.
TEST(AttentionShape, Shards) {
  Rng rng = test_rng();
  for (int32_t mask :
       std::initializer_list<int32_t>{FOVEA_MASK_NONE, FOVEA_MASK_CAUSAL, FOVEA_MASK_WINDOW, FOVEA_MASK_CHUNK}) {
    for (int32_t interleave : {1, 4, 16}) {
      for (int32_t rank = 0; rank < 3; ++rank) {
        AttentionCase c = simple_case({4, 1, 2}, {61, 3, 0}, 4, 2, 32, 32);
        c.options.mask = mask;
        c.alibi = true;
        if (mask == FOVEA_MASK_WINDOW) c.options.window_left = 7;
        if (mask == FOVEA_MASK_CHUNK) c.options.chunk_size = 9;
        c.kv[0].shard_world = 3;
        c.kv[0].shard_rank = rank;
        c.kv[0].shard_interleave = interleave;
        c.kv[0].page_size = 4;
        c.kv[0].starts = {2, 0, 0};
        c.kv[0].index = rank == 2 ? KvIndex::contiguous : KvIndex::table;
        ASSERT_TRUE(check_attention(c, rng));
      }
    }
  }
}

// Pointers aligned to their element only (D26), and views of every kind (D16, D17).
TEST(BugCorpus, D16_D17_D26_StridesAndOffsets) {
  Rng rng = test_rng();
  for (int i = 0; i < 60; ++i) {
    AttentionCase c = simple_case({rng.integer(0, 4), rng.integer(1, 3)}, {rng.integer(0, 40), 12}, 4, 2, 40, 24);
    c.any_layout = true;
    c.padded = i % 2;
    c.pad_front = i % 3;
    c.q_dtype = kFloats[i % 3];
    c.out_dtype = kFloats[i / 3 % 3];
    ASSERT_TRUE(check_attention(c, rng));
  }
}

}  // namespace
}  // namespace fovea::test
