// SPDX-License-Identifier: Apache-2.0
// Attention over quantised K and V (docs/kv-formats.md), against fp64 attention over what the records decode to.
#include <algorithm>
#include <cmath>

#include "support/attention_cases.h"
#include "support/check.h"

namespace fovea::test {
namespace {

constexpr int32_t kGrids[] = {FOVEA_CODEC_I8, FOVEA_CODEC_Q6, FOVEA_CODEC_Q5,
                              FOVEA_CODEC_Q4, FOVEA_CODEC_Q3, FOVEA_CODEC_Q2};

SideSpec side(int32_t codec, int32_t scale_dtype = FOVEA_F16) {
  if (codec == FOVEA_CODEC_FP8) return {codec, FOVEA_SCALE_HEAD, FOVEA_F32, 0};
  if (codec < FOVEA_CODEC_I8) return {codec, FOVEA_SCALE_NONE, FOVEA_F32, 0};
  return {codec, FOVEA_SCALE_TOKEN_HEAD, scale_dtype, 0};
}

AttentionCase grid_case(std::vector<int64_t> q_lens, std::vector<int64_t> kv_lens, int32_t heads, int32_t kv_heads,
                        int32_t d, int32_t k, int32_t v) {
  AttentionCase c = simple_case(std::move(q_lens), std::move(kv_lens), heads, kv_heads, d, d);
  c.options.mask = FOVEA_MASK_CAUSAL;
  c.kv[0].k = side(k);
  c.kv[0].v = side(v);
  return c;
}

// Decode and prefill of every pair, with the codecs that need no rotation too.
TEST(AttentionGrids, EveryPairOfCodecs) {
  Rng rng = test_rng();
  std::vector<int32_t> all(std::begin(kGrids), std::end(kGrids));
  all.insert(all.end(), {FOVEA_CODEC_F32, FOVEA_CODEC_BF16, FOVEA_CODEC_FP8});
  for (const int32_t k : all) {
    for (const int32_t v : all) {
      if (k < FOVEA_CODEC_I8 && v < FOVEA_CODEC_I8) continue;
      ASSERT_TRUE(check_attention(grid_case({1, 19}, {70, 33}, 4, 2, 64, k, v), rng))
          << fovea_codec_name(k) << ' ' << fovea_codec_name(v);
    }
  }
}

TEST(AttentionGrids, EveryHeadDim) {
  Rng rng = test_rng();
  for (const int32_t d : {32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 512}) {
    for (const int32_t codec : kGrids) {
      if (codec != FOVEA_CODEC_Q5 && codec != FOVEA_CODEC_Q3 && codec != kGrids[static_cast<size_t>(d / 16) % 6])
        continue;
      ASSERT_TRUE(check_attention(grid_case({1, 12}, {40, 12}, 4, 2, d, codec, codec), rng))
          << "d " << d << ' ' << fovea_codec_name(codec);
    }
  }
  AttentionCase uneven = grid_case({2}, {37}, 6, 3, 192, FOVEA_CODEC_Q4, FOVEA_CODEC_Q6);
  uneven.kv[0].d_v = 128;
  ASSERT_TRUE(check_attention(uneven, rng));
}

TEST(AttentionGrids, PagesScalesAndIndices) {
  Rng rng = test_rng();
  for (const auto& [page, prescale] : {std::pair{16, 1.0f}, {32, 0.125f}, {64, 4.0f}, {128, 1.0f}}) {
    for (const int32_t scale : {FOVEA_F16, FOVEA_F32}) {
      AttentionCase c = grid_case({1, 3, 20}, {150, 70, 20}, 6, 2, 64, FOVEA_CODEC_Q6, FOVEA_CODEC_Q3);
      c.kv[0].k.scale_dtype = scale;
      c.kv[0].page_size = page;
      c.kv[0].prescale = prescale;
      c.kv[0].index = page == 16 ? KvIndex::csr : KvIndex::table;
      c.kv[0].v_table = page == 64;
      ASSERT_TRUE(check_attention(c, rng));
    }
  }
}

// Every mask and option, on rows that have keys in lanes and on rows that have not.
TEST(AttentionGrids, MasksAndOptions) {
  Rng rng = test_rng();
  struct Option {
    const char* name;
    void (*set)(AttentionCase&);
  };
  const Option options[] = {
      {"window", [](AttentionCase& c) { c.options.mask = FOVEA_MASK_WINDOW, c.options.window_left = 30; }},
      {"chunk", [](AttentionCase& c) { c.options.mask = FOVEA_MASK_CHUNK, c.options.chunk_size = 24; }},
      {"none", [](AttentionCase& c) { c.options.mask = FOVEA_MASK_NONE; }},
      {"bits",
       [](AttentionCase& c) {
         c.options.mask = FOVEA_MASK_NONE, c.mask_lens = {20, 60, 33};
       }},
      {"softcap", [](AttentionCase& c) { c.options.softcap = 3; }},
      {"alibi", [](AttentionCase& c) { c.alibi = true; }},
      {"sinks", [](AttentionCase& c) { c.sinks = true; }},
      {"splits", [](AttentionCase& c) { c.options.split_size = 64; }},
      {"starts",
       [](AttentionCase& c) {
         c.kv[0].starts = {11, 64, 0};
       }},
      {"shard",
       [](AttentionCase& c) { c.kv[0].shard_world = 2, c.kv[0].shard_rank = 1, c.kv[0].shard_interleave = 16; }},
      {"padded", [](AttentionCase& c) { c.padded = true, c.pad_front = 2, c.pad_back = 1; }},
      {"narrow", [](AttentionCase& c) { c.q_dtype = c.out_dtype = FOVEA_BF16; }},
  };
  for (const Option& option : options) {
    for (const bool few : {true, false}) {
      AttentionCase c = few ? grid_case({1, 2, 1}, {100, 70, 33}, 4, 2, 64, FOVEA_CODEC_Q4, FOVEA_CODEC_Q4)
                            : grid_case({40, 7, 33}, {100, 70, 33}, 6, 2, 96, FOVEA_CODEC_Q6, FOVEA_CODEC_I8);
      option.set(c);
      ASSERT_TRUE(check_attention(c, rng)) << option.name;
    }
  }
}

TEST(AttentionGrids, GroupsAndDraftLengths) {
  Rng rng = test_rng();
  for (const int32_t group : {1, 2, 3, 4, 5, 7, 8, 16}) {
    ASSERT_TRUE(check_attention(grid_case({1, 5}, {77, 30}, 2 * group, 2, 64, FOVEA_CODEC_Q4, FOVEA_CODEC_Q2), rng));
  }
  for (int64_t q_len = 1; q_len <= 16; ++q_len) {
    ASSERT_TRUE(check_attention(grid_case({q_len}, {90}, 4, 2, 64, FOVEA_CODEC_Q3, FOVEA_CODEC_Q4), rng));
  }
}

// A sink page and an open page of 16 bits around codes: Q is rotated for one segment and not for the others.
TEST(AttentionGrids, SegmentsOfSixteenBitsBesideCodes) {
  Rng rng = test_rng();
  for (const int64_t q_len : {1, 20}) {
    AttentionCase c;
    c.q_lens = {q_len};
    c.heads = 4;
    c.kv.clear();
    c.options.mask = FOVEA_MASK_CAUSAL;
    for (const auto& [len, k, v] : {std::tuple{16, FOVEA_CODEC_BF16, FOVEA_CODEC_BF16},
                                    {640, FOVEA_CODEC_Q4, FOVEA_CODEC_Q3},
                                    {21, FOVEA_CODEC_BF16, FOVEA_CODEC_F16}}) {
      KvSpec s{.lens = {len}, .heads = 2, .d_k = 64, .d_v = 64};
      s.k = side(k);
      s.v = side(v);
      c.kv.push_back(s);
    }
    ASSERT_TRUE(check_attention(c, rng));
  }
}

// Keys of a part in a stream of their own, which is neither rotated nor scaled.
TEST(AttentionGrids, RopePartBesideCodes) {
  Rng rng = test_rng();
  for (const int64_t q_len : {1, 30}) {
    AttentionCase c = grid_case({q_len}, {90}, 4, 2, 64 + 32, FOVEA_CODEC_Q4, FOVEA_CODEC_Q6);
    c.kv[0].d_v = 64;
    c.kv[0].d_rope = 32;
    c.kv[0].rope_dtype = FOVEA_BF16;
    ASSERT_TRUE(check_attention(c, rng));
  }
}

TEST(AttentionGrids, ExtremeVectors) {
  Rng rng = test_rng();
  for (const Values values : {Values::zero, Values::equal, Values::one_hot, Values::denormal, Values::peaked}) {
    for (const int64_t q_len : {1, 18}) {
      AttentionCase c = grid_case({q_len}, {70}, 4, 2, 128, FOVEA_CODEC_Q5, FOVEA_CODEC_Q4);
      c.k_values = c.v_values = values;
      ASSERT_TRUE(check_attention(c, rng)) << name_of(values);
    }
  }
}

// The last row of a prefill has the bits of the same row alone, which has its keys in lanes.
TEST(AttentionGrids, PrefillEqualsDecode) {
  const uint64_t seed = test_seed();
  for (const int32_t codec : kGrids) {
    const auto problem_of = [&](int64_t q_len) {
      Rng rng(seed);
      AttentionCase c = grid_case({q_len}, {90}, 4, 2, 64, codec, codec);
      c.options.batch_invariant = c.options.chunk_invariant = 1;
      c.poison = false;
      auto problem = std::make_unique<AttentionProblem>(c, rng);
      Rng values(seed + 1), queries(seed + 2);
      fill(*problem->caches[0], c.kv[0], values, Values::normal, Values::normal, [](int64_t, int64_t) { return true; });
      const std::vector<double> q = draw(queries, Values::normal, 20 * 4, 64);  // of the last 20 tokens
      problem->q.assign({q.end() - q_len * 4 * 64, q.end()});
      return problem;
    };
    const auto one = problem_of(1), many = problem_of(20);
    for (const Backend& backend : backends(FOVEA_OP_ATTENTION)) {
      RUN_OR_CONTINUE(run(backend, one->params));
      RUN_OR_CONTINUE(run(backend, many->params));
      const std::vector<double> all = many->out.values();
      EXPECT_EQ(one->out.values(), std::vector<double>(all.end() - 4 * 64, all.end())) << backend.name;
    }
  }
}

// ---- what is refused ----

struct Mistake {
  const char* name;
  void (*make)(fovea_kv&);
  const char* message;
};
constexpr Mistake kMistakes[] = {
    {"no record", [](fovea_kv& kv) { kv.record_version = 0; },
     "kv.record_version is 0: codec q4 lies in records, which fovea_kv_record lays out"},
    {"version", [](fovea_kv& kv) { kv.record_version = 2; },
     "kv.record_version is 2: must be 0 or 1: records of other versions cannot be read"},
    {"page", [](fovea_kv& kv) { kv.page_size = 48; }, "kv.page_size is 48: must be 16, 32, 64 or 128 in records"},
    {"rows", [](fovea_kv& kv) { kv.k.data.token_stride = 64; },
     "kv.k.data.token_stride is 64: must be 32 bytes in records"},
    {"heads", [](fovea_kv& kv) { kv.v.data.head_stride += 64; }, "kv.v.data.head_stride"},
    {"scale kind",
     [](fovea_kv& kv) {
       kv.k.scale_kind = FOVEA_SCALE_TENSOR,
       kv.k.scale.page_stride = kv.k.scale.token_stride = kv.k.scale.head_stride = 0;
     },
     "kv.k.scale_kind is tensor: must be token_head for codec q4"},
    {"near heads", [](fovea_kv& kv) { kv.k.data.head_stride = 128; },
     "kv.k.data.head_stride is 128: must be at least the 1152 bytes of a record, of either sign"},
    {"near pages", [](fovea_kv& kv) { kv.v.data.page_stride = 0; },
     "kv.v.data.page_stride is 0: must be at least the 1152 bytes of a record, of either sign"},
    {"base", [](fovea_kv& kv) { kv.k.data.base = static_cast<std::byte*>(kv.k.data.base) - 64; },
     "kv.k.data.base is misaligned: must be a multiple of 128 bytes in records"},
    {"scale type", [](fovea_kv& kv) { kv.v.scale_dtype = FOVEA_BF16; },
     "kv.v.scale_dtype is bf16: must be f16 or f32 for codec q4"},
    {"no scale", [](fovea_kv& kv) { kv.v.scale_kind = kv.v.scale_dtype = 0, kv.v.scale = {}; },
     "kv.v.scale_kind is none: codec q4 needs a scale"},
    {"prescale", [](fovea_kv& kv) { kv.prescale = 3; }, "kv.prescale is 3: must be a power of two"},
    {"prescale 0", [](fovea_kv& kv) { kv.prescale = 0; }, "kv.prescale is 0: must be a power of two"},
    {"codebook", [](fovea_kv& kv) { kv.codebook = kv.kv_lens; }, "kv.codebook"},
};

TEST(AttentionGrids, Mistakes) {
  Rng rng = test_rng();
  const AttentionCase c = grid_case({1}, {40}, 4, 2, 64, FOVEA_CODEC_Q4, FOVEA_CODEC_Q4);
  for (const Mistake& m : kMistakes) {
    AttentionProblem problem(c, rng);
    m.make(problem.kvs[0]);
    for (const Backend& b : backends()) {
      const Outcome r = run(b, problem.params);
      EXPECT_NE(r.code, FOVEA_OK) << m.name;
      EXPECT_NE(r.message.find(m.message), std::string::npos) << m.name << ": " << r.message;
    }
  }
  AttentionCase odd = grid_case({1}, {40}, 4, 2, 64, FOVEA_CODEC_Q4, FOVEA_CODEC_Q4);
  AttentionProblem problem(odd, rng);
  problem.kvs[0].d_v = 72;
  for (const Backend& b : backends()) {
    EXPECT_NE(run(b, problem.params).message.find("kv.d_v is 72: codec q4 rotates vectors of 32, 48, 64"),
              std::string::npos);
  }
}

TEST(KvRecordPool, IsLaidOutInOnePiece) {
  fovea_kv kv;
  fovea_kv_init(&kv);
  kv.heads = 2;
  kv.d_k = kv.d_v = 128;
  kv.page_size = 64;
  kv.pages = 3;
  kv.k = {.codec = FOVEA_CODEC_Q4, .scale_kind = FOVEA_SCALE_TOKEN_HEAD, .scale_dtype = FOVEA_F16};
  kv.v = kv.k;
  int64_t bytes = 0;
  ASSERT_EQ(fovea_kv_record(&kv, nullptr, &bytes), FOVEA_OK) << fovea_last_error();
  EXPECT_EQ(bytes, 3 * 2 * 8448);
  EXPECT_EQ(kv.record_version, 1);
  EXPECT_EQ(kv.k.data.base, nullptr);
  alignas(128) static std::byte memory[3 * 2 * 8448];
  ASSERT_EQ(fovea_kv_record(&kv, memory, nullptr), FOVEA_OK);
  EXPECT_EQ(kv.k.data.base, memory);
  EXPECT_EQ(kv.v.data.base, memory + 4096);
  EXPECT_EQ(kv.k.scale.base, memory + 8192);
  EXPECT_EQ(kv.v.scale.base, memory + 8320);
  EXPECT_EQ(kv.k.data.token_stride, 64);
  EXPECT_EQ(kv.k.scale.token_stride, 2);
  EXPECT_EQ(kv.v.data.head_stride, 8448);
  EXPECT_EQ(kv.v.data.page_stride, 2 * 8448);
  const auto refused = [&](const char* message, auto change) {
    fovea_kv wrong = kv;
    void* at = memory;
    change(wrong, at);
    const fovea_kv before = wrong;
    EXPECT_NE(fovea_kv_record(&wrong, at, &bytes), FOVEA_OK) << message;
    EXPECT_NE(std::string(fovea_last_error()).find(message), std::string::npos) << fovea_last_error();
    EXPECT_EQ(wrong.k.data.base, before.k.data.base);
    EXPECT_EQ(wrong.v.data.page_stride, before.v.data.page_stride);
  };
  refused("kv.page_size is 8: must be 16, 32, 64 or 128 in records", [](fovea_kv& k, void*&) { k.page_size = 8; });
  refused("records is misaligned: must be a multiple of 128 bytes",
          [](fovea_kv&, void*& at) { at = static_cast<std::byte*>(at) + 64; });
  refused("kv.d_k is 100: codec q4 rotates vectors of", [](fovea_kv& k, void*&) { k.d_k = 100; });
  refused("kv.k.codec is 77", [](fovea_kv& k, void*&) { k.k.codec = 77; });
  refused("kv.v.scale_kind is group: must be token_head for codec q4",
          [](fovea_kv& k, void*&) { k.v.scale_kind = FOVEA_SCALE_GROUP, k.v.scale_group = 32; });
  refused("kv.k.scale_kind is group: must be another kind: records have no scales of groups", [](fovea_kv& k, void*&) {
    k.k.codec = FOVEA_CODEC_FP8, k.k.scale_kind = FOVEA_SCALE_GROUP, k.k.scale_group = 32;
  });
  refused(
      "kv.d_k is 128: codec q4 rotates vectors of 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 512; without "
      "d_rope it "
      "is 118",
      [](fovea_kv& k, void*&) { k.d_rope = 10, k.rope_dtype = FOVEA_BF16; });
  refused("kv.pages is 9223372036854775807: the pool has more bytes than 64 bits count",
          [](fovea_kv& k, void*&) { k.pages = INT64_MAX; });
  EXPECT_NE(fovea_kv_record(nullptr, nullptr, nullptr), FOVEA_OK);
}

}  // namespace
}  // namespace fovea::test
