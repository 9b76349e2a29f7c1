// SPDX-License-Identifier: Apache-2.0
// Public faults of attention kernels, one test for each kind. README.md of this folder maps the ids.
#include <cmath>
#include <limits>

#include "oracle/kv64.h"
#include "oracle/numbers.h"
#include "support/attention_cases.h"
#include "support/check.h"

namespace fovea::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// One token of all heads: every element of K, every element of V.
void write_token(AttentionProblem& problem, int64_t b, int64_t t, double k, double v, Rng& rng) {
  const fovea_kv& kv = problem.kvs[0];
  problem.caches[0]->write(b, t, std::vector<double>(static_cast<size_t>(kv.heads * kv.d_k), k),
                           std::vector<double>(static_cast<size_t>(kv.heads * kv.d_v), v), rng);
}

// Scores far below any finite mask value are still scores.
TEST(BugCorpus, A01_SentinelMask) {
  Rng rng = test_rng();
  for (int32_t dtype : {FOVEA_BF16, FOVEA_F32}) {
    for (double score : {-1e3, -6.6855859e4, -1e5, -1e9, -1e20, -1e30}) {
      double lse[2];
      for (int64_t keys : {1, 2}) {
        AttentionCase c = simple_case({1}, {keys}, 2, 1, 64, 32);
        c.q_dtype = dtype;
        c.kv[0].k.codec = c.kv[0].v.codec = dtype;
        AttentionProblem problem(c, rng);
        const double root = std::sqrt(-score / 8);  // 64 products times 1 / 8
        problem.q.fill([&](int64_t) { return root; });
        for (int64_t t = 0; t < keys; ++t) write_token(problem, 0, t, -root, 1, rng);
        ASSERT_TRUE(check_attention(problem)) << score;
        for (double x : problem.out.values()) EXPECT_EQ(x, 1) << score;
        lse[keys - 1] = problem.lse.get(0);
        EXPECT_NEAR(lse[keys - 1] / score, 1, 0.01);
      }
      if (score > -2e5) {
        EXPECT_NEAR(lse[1] - lse[0], std::log(2), -score * 2e-7) << score;
      }
    }
  }
}

TEST(BugCorpus, A02_MoreQueriesThanKeys) {
  Rng rng = test_rng();
  for (int32_t codec : {FOVEA_CODEC_BF16, FOVEA_CODEC_F32}) {
    AttentionCase c = simple_case({8}, {3}, 4, 2, 64, 64);
    c.options.mask = FOVEA_MASK_CAUSAL;
    c.kv[0].k.codec = c.kv[0].v.codec = codec;
    AttentionProblem problem(c, rng);
    ASSERT_TRUE(check_attention(problem));
    for (int64_t row = 0; row < 8 * 4; ++row) {
      EXPECT_EQ(std::isinf(problem.lse.get(row)), row < 5 * 4) << row;
    }
  }
}

// Whole rows masked at the front, in the middle, at the end; with sinks.
TEST(BugCorpus, A07_FullyMaskedRowsWithSinks) {
  Rng rng = test_rng();
  for (int64_t first : {0, 20, 50}) {
    AttentionCase c = simple_case({64}, {80}, 2, 1, 512, 512);
    c.kv[0].k.codec = c.kv[0].v.codec = first == 20 ? FOVEA_CODEC_F16 : FOVEA_CODEC_F32;
    c.sinks = true;
    c.mask_lens = {80};
    c.bit_density = 1;
    AttentionProblem problem(c, rng);
    for (int64_t row = first; row < first + 14; ++row) {
      for (int64_t word = 0; word < 3; ++word) problem.mask_bits.set(row * 3 + word, 0);
    }
    ASSERT_TRUE(check_attention(problem)) << first;
    EXPECT_EQ(problem.lse.get(first * 2), problem.sinks.get(0));
  }
}

// Whole key tiles are masked for rows that have keys later.
TEST(BugCorpus, A09_MaskedTilesBeforeTheFirstKey) {
  Rng rng = test_rng();
  AttentionCase c = simple_case({640}, {640}, 1, 1, 16, 16);
  c.options.mask = FOVEA_MASK_WINDOW;
  c.options.window_left = 10;
  c.options.window_right = 0;
  c.poison = false;
  ASSERT_TRUE(check_attention(c, rng));
  c.options.mask = FOVEA_MASK_NONE;
  c.options.window_left = c.options.window_right = -1;
  c.mask_lens = {640};
  c.bit_density = 0.01;
  ASSERT_TRUE(check_attention(c, rng));
}

TEST(BugCorpus, A11_A19_CrossAttentionWithPaddingMask) {
  Rng rng = test_rng();
  for (int32_t dtype : {FOVEA_F32, FOVEA_BF16, FOVEA_F16}) {
    AttentionCase c = simple_case({8}, {16}, 4, 4, 32, 32);
    c.q_dtype = c.out_dtype = c.kv[0].k.codec = c.kv[0].v.codec = dtype;  // the codecs have the numbers of their types
    c.mask_lens = {16};
    AttentionProblem problem(c, rng);
    for (int64_t row = 0; row < 8; ++row) problem.mask_bits.set(row, row < 5 ? 0x07FF : 0);
    for (int64_t t = 0; t < 16; ++t) write_token(problem, 0, t, rng.normal(), rng.normal(), rng);
    ASSERT_TRUE(check_attention(problem));
    for (int64_t h = 0; h < 4; ++h) EXPECT_EQ(problem.lse.get(7 * 4 + h), -kInf);
  }
}

// A block-diagonal mask is attention of each block alone.
TEST(BugCorpus, A12_BlockDiagonalMask) {
  Rng rng = test_rng();
  constexpr int64_t kBlock = 48, kBlocks = 3, kLen = kBlock * kBlocks;
  AttentionCase whole = simple_case({kLen}, {kLen}, 2, 1, 32, 32);
  whole.kv[0].k.codec = whole.kv[0].v.codec = FOVEA_CODEC_F16;
  whole.kv[0].index = KvIndex::ragged;
  whole.mask_lens = {kLen};
  whole.bit_density = 1;
  AttentionProblem joined(whole, rng);
  const int64_t words = (kLen + 31) / 32;
  for (int64_t row = 0; row < kLen; ++row) {
    for (int64_t w = 0; w < words; ++w) {
      uint32_t bits = 0;
      for (int64_t j = w * 32; j < w * 32 + 32; ++j)
        bits |= static_cast<uint32_t>(j / kBlock == row / kBlock) << (j % 32);
      joined.mask_bits.set(row * words + w, bits);
    }
  }
  ASSERT_TRUE(check_attention(joined));
  AttentionCase split = simple_case({kBlock, kBlock, kBlock}, {kBlock, kBlock, kBlock}, 2, 1, 32, 32);
  split.kv[0].k.codec = split.kv[0].v.codec = FOVEA_CODEC_F16;
  split.kv[0].index = KvIndex::ragged;
  AttentionProblem apart(split, rng);
  apart.q.assign(joined.q.values());
  apart.params.kv = joined.params.kv;  // the same memory, cut by cu_seqlens_kv
  joined.kvs[0].cu_seqlens_kv = apart.kvs[0].cu_seqlens_kv;
  ASSERT_TRUE(check_attention(apart));
  EXPECT_TRUE(near(joined.out, apart.out.values(), 1e-6, 1e-5));
}

TEST(BugCorpus, A14_EmptySequencesInAnMlaBatch) {
  Rng rng = test_rng();
  AttentionCase c = simple_case({1, 1, 1, 1}, {0, 0, 129, 0}, 16, 1, 576, 512);
  c.q_dtype = c.out_dtype = FOVEA_BF16;
  c.kv[0].k.codec = FOVEA_CODEC_BF16;
  c.kv[0].v_in_k = true;
  c.kv[0].page_size = 64;
  ASSERT_TRUE(check_attention(c, rng));
}

TEST(BugCorpus, A16_SplitsOfNothing) {
  Rng rng = test_rng();
  for (int32_t split : {0, 16}) {
    AttentionCase c = simple_case({0}, {100}, 2, 1, 32, 32);
    c.options.split_size = split;
    ASSERT_TRUE(check_attention(c, rng));
    c.q_lens = {0, 0, 1};
    c.kv[0].lens = {0, 300, 0};
    ASSERT_TRUE(check_attention(c, rng));
    ASSERT_TRUE(check_attention(simple_case({}, {}, 2, 1, 32, 32), rng));
  }
}

TEST(BugCorpus, A21_HeadsOfStrideZero) {
  Rng rng = test_rng();
  for (int64_t len : {31, 32, 33, 34, 63, 64, 65, 66}) {
    AttentionCase c = simple_case({3}, {len}, 8, 4, 64, 64);
    c.kv[0].layout = KvLayout::shared_heads;
    c.kv[0].k.codec = c.kv[0].v.codec = FOVEA_CODEC_BF16;
    c.q_dtype = c.out_dtype = FOVEA_BF16;
    c.mask_lens = {len};
    ASSERT_TRUE(check_attention(c, rng));
  }
}

// Without a mask the number of keys says nothing about the position of the queries.
TEST(BugCorpus, A22_CrossAttention) {
  Rng rng = test_rng();
  AttentionCase c = simple_case({64, 64}, {32, 128}, 2, 2, 32, 32);
  c.kv[0].k.codec = c.kv[0].v.codec = FOVEA_CODEC_BF16;
  c.kv[0].index = KvIndex::contiguous;
  AttentionProblem problem(c, rng);
  problem.q.fill([](int64_t) { return 0.0; });
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t t = 0; t < c.kv[0].lens[static_cast<size_t>(b)]; ++t)
      write_token(problem, b, t, 0, static_cast<double>(t), rng);
  }
  ASSERT_TRUE(check_attention(problem));
  EXPECT_NEAR(problem.out.get(0), 15.5, 1e-4);
  EXPECT_NEAR(problem.out.get(problem.out.size() - 1), 63.5, 1e-4);
}

TEST(BugCorpus, A24_RandomMaskWithPartlyFullBlocks) {
  Rng rng = test_rng();
  for (double density : {0.02, 0.5, 0.98}) {
    AttentionCase c = simple_case({50, 7}, {133, 90}, 4, 2, 32, 32);
    c.mask_lens = {133, 61};
    c.bit_density = density;
    ASSERT_TRUE(check_attention(c, rng));
    c.options.mask = FOVEA_MASK_CAUSAL;
    ASSERT_TRUE(check_attention(c, rng));
  }
}

// NaN and infinities behind the length: 0 * NaN must not appear.
TEST(BugCorpus, B01_PoisonBeyondTheLength) {
  Rng rng = test_rng();
  for (double poison : {std::nan(""), kInf, -kInf}) {
    for (int64_t len : {1, 3, 17, 64}) {
      AttentionCase c = simple_case({1, 1}, {len, len + 40}, 4, 2, 32, 32);
      c.kv[0].k.codec = c.kv[0].v.codec = len % 2 ? FOVEA_CODEC_BF16 : FOVEA_CODEC_F16;
      c.kv[0].index = KvIndex::contiguous;
      c.options.mask = FOVEA_MASK_CAUSAL;
      AttentionProblem problem(c, rng);
      for (int64_t t = len; t < problem.kvs[0].page_size; ++t) write_token(problem, 0, t, poison, poison, rng);
      ASSERT_TRUE(check_attention(problem)) << poison;
    }
  }
}

TEST(BugCorpus, B02_PoisonOutsideTheWindow) {
  Rng rng = test_rng();
  for (double poison : {std::nan(""), kInf}) {
    for (int32_t mask : {FOVEA_MASK_WINDOW, FOVEA_MASK_CHUNK}) {
      AttentionCase c = simple_case({3}, {200}, 4, 2, 32, 32);
      c.kv[0].k.codec = c.kv[0].v.codec = FOVEA_CODEC_F16;
      c.options.mask = mask;
      if (mask == FOVEA_MASK_WINDOW) c.options.window_left = 37;
      if (mask == FOVEA_MASK_CHUNK) c.options.chunk_size = 90;
      c.kv[0].index = KvIndex::contiguous;
      AttentionProblem problem(c, rng);
      const int64_t first = mask == FOVEA_MASK_WINDOW ? 197 - 37 : 180;
      for (int64_t t = 0; t < first; ++t) write_token(problem, 0, t, poison, poison, rng);
      ASSERT_TRUE(check_attention(problem)) << poison;
    }
  }
}

// Inside the window of one row and outside that of the others: these must not see the NaN.
TEST(BugCorpus, B02_PoisonSeenByAnotherRowOnly) {
  Rng rng = test_rng();
  for (int32_t codec : {FOVEA_CODEC_F32, FOVEA_CODEC_BF16}) {
    AttentionCase c = simple_case({4}, {60}, 2, 1, 32, 32);
    c.options.mask = FOVEA_MASK_WINDOW;
    c.options.window_left = 9;
    c.options.window_right = 0;
    c.kv[0].index = KvIndex::contiguous;
    c.kv[0].k.codec = c.kv[0].v.codec = codec;
    AttentionProblem problem(c, rng);
    write_token(problem, 0, 47, std::nan(""), std::nan(""), rng);  // seen at position 56 alone
    for (const Backend& backend : backends(FOVEA_OP_ATTENTION)) {
      problem.poison_outputs();
      RUN_OR_CONTINUE(run(backend, problem.params));
      for (int64_t i = 0; i < problem.out.size(); ++i) {
        EXPECT_EQ(std::isnan(problem.out.get(i)), i < 2 * 32) << backend.name << " " << i;
      }
    }
  }
}

TEST(BugCorpus, B03_NanOfFp8IsNanToThoseWhoSeeIt) {
  Rng rng = test_rng();
  for (int64_t d : {40, 64}) {
    for (bool in_k : {false, true}) {
      AttentionCase c = simple_case({1}, {40}, 4, 2, static_cast<int32_t>(d), static_cast<int32_t>(d));
      c.kv[0].index = KvIndex::contiguous;
      c.kv[0].k = c.kv[0].v = {FOVEA_CODEC_FP8, FOVEA_SCALE_TENSOR, FOVEA_F32, 0};
      AttentionProblem problem(c, rng);
      write_token(problem, 0, 17, in_k ? std::nan("") : 0.5, in_k ? 0.5 : std::nan(""), rng);
      for (const Backend& backend : backends(FOVEA_OP_ATTENTION)) {
        problem.poison_outputs();
        RUN_OR_CONTINUE(run(backend, problem.params));
        for (int64_t i = 0; i < problem.out.size(); ++i) {
          EXPECT_TRUE(std::isnan(problem.out.get(i))) << backend.name << " " << i;
        }
      }
    }
  }
}

TEST(BugCorpus, B06_PageTableOfExactSize) {
  Rng rng = test_rng();
  for (int32_t page : {1, 3, 16, 64}) {
    for (int64_t len : {1, 15, 16, 17, 64, 65}) {
      AttentionCase c = simple_case({1}, {len}, 4, 2, 32, 32);
      c.kv[0].index = KvIndex::csr;
      c.kv[0].page_size = page;
      c.kv[0].spare_pages = 0;
      ASSERT_TRUE(check_attention(c, rng));
      c.kv[0].index = KvIndex::table;
      ASSERT_TRUE(check_attention(c, rng));
    }
  }
}

TEST(BugCorpus, B09_EmptySequenceClearsItsRow) {
  Rng rng = test_rng();
  AttentionCase c = simple_case({2, 1}, {0, 4}, 4, 2, 32, 32);
  c.kv[0].k.codec = c.kv[0].v.codec = FOVEA_CODEC_F16;
  AttentionProblem problem(c, rng);
  ASSERT_TRUE(check_attention(problem));
  for (int64_t i = 0; i < 2 * 4 * 32; ++i) EXPECT_EQ(problem.out.get(i), 0);
}

TEST(BugCorpus, B12_ScratchContentsDoNotMatter) {
  Rng rng = test_rng();
  AttentionCase c = simple_case({1, 20}, {700, 90}, 4, 2, 32, 32);
  c.kv[0].k.codec = c.kv[0].v.codec = FOVEA_CODEC_F16;
  c.options.split_size = 64;
  AttentionProblem problem(c, rng);
  for (const Backend& backend : backends(FOVEA_OP_ATTENTION)) {
    RUN_OR_CONTINUE(run(backend, problem.params, {}, 0xFF));
    const auto first = problem.result_bits();
    for (uint8_t fill : {0x00, 0x7F, 0x3C}) {
      RUN_OR_CONTINUE(run(backend, problem.params, {}, fill));
      EXPECT_EQ(first, problem.result_bits()) << backend.name;
    }
  }
}

TEST(BugCorpus, C11_LengthsAroundTwoToTheFifteen) {
  Rng rng = test_rng();
  for (int64_t len : {32767, 32768, 32769, 65536}) {
    AttentionCase c = simple_case({1}, {len}, 1, 1, 16, 16);
    c.options.mask = FOVEA_MASK_CAUSAL;
    c.kv[0].page_size = 256;
    c.kv[0].k.codec = c.kv[0].v.codec = FOVEA_CODEC_F16;
    ASSERT_TRUE(check_attention(c, rng));
  }
}

// Every (row, head) is written exactly once: outputs start as NaN, and the group factor is in the tile count.
TEST(BugCorpus, C17_TilesCoverEveryRowAndHead) {
  Rng rng = test_rng();
  AttentionCase c = simple_case({257, 1, 64, 65}, {257, 30, 64, 65}, 16, 2, 16, 16);
  c.options.mask = FOVEA_MASK_CAUSAL;
  ASSERT_TRUE(check_attention(c, rng));
}

TEST(BugCorpus, D06_D21_SmallBatchesWithSoftcapAndAlibi) {
  Rng rng = test_rng();
  for (int32_t d : {64, 80, 96, 112, 128, 256}) {
    for (int64_t n = 1; n <= 9; ++n) {
      AttentionCase c = simple_case({n}, {50 + n}, 4, 2, d, d);
      c.options.mask = n % 2 ? FOVEA_MASK_CAUSAL : FOVEA_MASK_NONE;
      if (n % 3 != 1) c.options.softcap = 10;
      c.alibi = n % 3 != 2;
      if (n % 4 == 0) c.mask_lens = {n};
      ASSERT_TRUE(check_attention(c, rng));
    }
  }
}

TEST(BugCorpus, D09_WindowWithMixedTypes) {
  Rng rng = test_rng();
  for (int64_t n = 1; n <= 16; ++n) {
    AttentionCase c = simple_case({n}, {300}, 4, 2, 64, 64);
    c.options.mask = FOVEA_MASK_WINDOW;
    c.options.window_left = static_cast<int32_t>(n % 2 ? 127 : 128);
    c.options.window_right = 0;
    c.q_dtype = c.out_dtype = FOVEA_BF16;
    c.kv[0].k = c.kv[0].v = {FOVEA_CODEC_FP8, FOVEA_SCALE_TENSOR, FOVEA_F32, 0};
    ASSERT_TRUE(check_attention(c, rng));
  }
  AttentionCase c = simple_case({8}, {1100}, 2, 1, 256, 256);
  c.options.mask = FOVEA_MASK_WINDOW;
  c.options.window_left = 1023;
  c.options.window_right = 0;
  c.q_dtype = c.out_dtype = FOVEA_BF16;
  c.kv[0].k = c.kv[0].v = {FOVEA_CODEC_FP8, FOVEA_SCALE_TENSOR, FOVEA_F32, 0};
  ASSERT_TRUE(check_attention(c, rng));
}

TEST(BugCorpus, D21_AlibiHeadsOfAnyNumber) {
  Rng rng = test_rng();
  for (int32_t heads = 1; heads <= 64; ++heads) {
    AttentionCase c = simple_case({2}, {20}, heads, 1, 16, 16);
    c.options.mask = FOVEA_MASK_CAUSAL;
    c.alibi = true;
    c.alibi_batch = heads % 2;
    ASSERT_TRUE(check_attention(c, rng));
  }
}

TEST(BugCorpus, D22_HeadDimsOfNoPowerOfTwo) {
  Rng rng = test_rng();
  for (int32_t d : {17, 24, 33, 40, 96, 99, 100, 575}) {
    for (int32_t codec : {FOVEA_CODEC_F32, FOVEA_CODEC_F16, FOVEA_CODEC_FP8}) {
      AttentionCase c = simple_case({2}, {21}, 2, 1, d, d - 1);
      const int32_t kind = codec == FOVEA_CODEC_FP8 ? FOVEA_SCALE_TENSOR : FOVEA_SCALE_NONE;
      c.kv[0].k = c.kv[0].v = {codec, kind, FOVEA_F32, 0};
      ASSERT_TRUE(check_attention(c, rng));
    }
  }
}

// Probabilities near 1 and stale maxima must not leave e4m3's range: the error stays flat over the tile edge.
TEST(BugCorpus, G01_Fp8ErrorAroundATileEdge) {
  Rng rng = test_rng();
  for (int64_t len = 126; len <= 131; ++len) {
    AttentionCase c = simple_case({1}, {len}, 6, 1, 128, 128);
    c.q_dtype = FOVEA_E4M3;
    c.options.q_scale = 0.5f;
    c.out_dtype = FOVEA_BF16;
    c.kv[0].k = c.kv[0].v = {FOVEA_CODEC_FP8, FOVEA_SCALE_TENSOR, FOVEA_F32, 0};
    ASSERT_TRUE(check_attention(c, rng));
  }
}

TEST(AttentionValues, EveryDistribution) {
  Rng rng = test_rng();
  for (Values q : kAllValues) {
    for (Values k : kAllValues) {
      AttentionCase c = simple_case({3, 1}, {37, 80}, 4, 2, 32, 32);
      c.options.mask = FOVEA_MASK_CAUSAL;
      c.q_values = q;
      c.k_values = k;
      c.v_values = rng.pick({Values::normal, Values::one_hot, Values::equal, Values::denormal, Values::huge});
      const bool narrow = rng.chance(0.5);
      c.q_dtype = narrow ? FOVEA_BF16 : FOVEA_F32;
      c.kv[0].k.codec = c.kv[0].v.codec = c.q_dtype;
      ASSERT_TRUE(check_attention(c, rng));
    }
  }
}

}  // namespace
}  // namespace fovea::test
