// SPDX-License-Identifier: Apache-2.0
// kv_append: what lands in the cache, and what is left alone.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "oracle/append64.h"
#include "oracle/kv64.h"
#include "oracle/numbers.h"
#include "support/backends.h"
#include "support/check.h"
#include "support/kv_append_cases.h"

namespace fovea::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr int32_t kFloats[] = {FOVEA_F32, FOVEA_F16, FOVEA_BF16};

fovea_rope_config plain_rope(int32_t style, int32_t rotary_dim = 0) {
  fovea_rope_config rope;
  rope.style = style;
  rope.rotary_dim = rotary_dim;
  return rope;
}

TEST(KvAppend, EveryLayoutAndCodec) {
  Rng rng = test_rng();
  for (KvLayout layout : kPlainLayouts) {
    if (layout == KvLayout::shared_heads) continue;  // two heads in one place: nothing to append to
    for (int32_t codec : {FOVEA_CODEC_F32, FOVEA_CODEC_F16, FOVEA_CODEC_BF16, FOVEA_CODEC_FP8}) {
      for (int32_t dtype : kFloats) {
        AppendCase c;
        c.dtype = dtype;
        c.kv.layout = layout == KvLayout::one_pool ? KvLayout::hnd : layout;
        c.kv.page_size = rng.pick({1, 4, 16});
        c.kv.page_pad = layout == KvLayout::halves ? 0 : 32;
        const int32_t kind = codec == FOVEA_CODEC_FP8 ? FOVEA_SCALE_TENSOR : FOVEA_SCALE_NONE;
        c.kv.k = c.kv.v = {codec, kind, FOVEA_F32, 0};
        c.any_layout = true;
        c.index_dtype = rng.pick({FOVEA_I32, FOVEA_I64});
        check_append(c, rng);
        if (HasFailure()) return;
      }
    }
  }
}

TEST(KvAppend, EveryScaleKindOfFp8) {
  Rng rng = test_rng();
  for (int32_t kind : {FOVEA_SCALE_TENSOR, FOVEA_SCALE_HEAD, FOVEA_SCALE_TOKEN_HEAD, FOVEA_SCALE_GROUP}) {
    for (int32_t scale : kFloats) {
      for (KvLayout layout : {KvLayout::nhd, KvLayout::hnd, KvLayout::scales_in_page}) {
        AppendCase c;
        c.kv.layout = kind == FOVEA_SCALE_TENSOR || kind == FOVEA_SCALE_HEAD ? KvLayout::nhd : layout;
        c.kv.d_k = 64;
        c.kv.k = c.kv.v = {FOVEA_CODEC_FP8, kind, scale, kind == FOVEA_SCALE_GROUP ? 16 : 0};
        c.dtype = rng.pick({FOVEA_F32, FOVEA_F16, FOVEA_BF16});
        check_append(c, rng);
        c.values = Values::zero;  // G02: a zero vector has a finite scale and zero codes
        check_append(c, rng);
        if (HasFailure()) return;
      }
    }
  }
}

// Every bf16 and f16 value through fp8 with scale 1: saturation, NaN, ties, as bytes.
TEST(BugCorpus, G04_G06_GoldenFp8Bytes) {
  for (int32_t dtype : {FOVEA_BF16, FOVEA_F16}) {
    constexpr int64_t kTokens = 256, kDims = 256;
    Rng rng = test_rng();
    AppendCase c;
    c.tokens = kTokens;
    c.dtype = dtype;
    c.kv = {.lens = {kTokens}, .heads = 1, .d_k = kDims, .d_v = kDims};
    c.kv.k = c.kv.v = {FOVEA_CODEC_FP8, FOVEA_SCALE_TENSOR, FOVEA_F32, 0};
    AppendProblem problem(c, rng);
    *static_cast<float*>(problem.cache.kv().k.scale.base) = 1;
    *static_cast<float*>(problem.cache.kv().v.scale.base) = 1;
    for (int64_t i = 0; i < kTokens * kDims; ++i) {
      const auto bits = static_cast<uint16_t>(i);
      std::memcpy(problem.k.at(i), &bits, 2);
      std::memcpy(problem.v.at(i), &bits, 2);
    }
    for (const Backend& backend : backends(FOVEA_OP_KV_APPEND)) {
      RUN_OR_CONTINUE(run(backend, problem.params));
      for (int64_t i = 0; i < kTokens * kDims; ++i) {
        uint8_t want = 0;
        oracle::encode(FOVEA_E4M3, &want, problem.k.get(i));
        for (const fovea_kv_stream& s : {problem.cache.kv().k.data, problem.cache.kv().v.data}) {
          const auto got = static_cast<uint8_t>(oracle::kv_address(s, problem.slot(i / kDims), 0)[i % kDims]);
          const bool nan = (want & 0x7F) == 0x7F;
          ASSERT_TRUE(nan ? (got & 0x7F) == 0x7F : got == want)
              << backend.name << " " << problem.k.get(i) << " gives " << +got << ", want " << +want;
        }
      }
    }
  }
}

// A vector with NaN or Inf gets a computed scale of 0 and decodes to zeros: it is never spread.
TEST(KvAppend, BadVectorsUnderComputedScales) {
  Rng rng = test_rng();
  for (double bad : {std::nan(""), kInf, -kInf}) {
    AppendCase c;
    c.kv.k = c.kv.v = {FOVEA_CODEC_FP8, FOVEA_SCALE_TOKEN_HEAD, FOVEA_F32, 0};
    AppendProblem problem(c, rng);
    problem.k.set(0, bad);
    for (const Backend& backend : backends(FOVEA_OP_KV_APPEND)) {
      RUN_OR_CONTINUE(run(backend, problem.params));
      const fovea_kv& kv = problem.cache.kv();
      EXPECT_EQ(oracle::decode(FOVEA_F32, oracle::scale_address(kv.k, problem.slot(0), 0, 0)), 0) << backend.name;
      for (int64_t d = 0; d < kv.d_k; ++d) EXPECT_EQ(oracle::k_at(kv, problem.slot(0), 0, d), 0);
      for (int64_t d = 0; d < kv.d_k; ++d) EXPECT_TRUE(std::isfinite(oracle::k_at(kv, problem.slot(0), 1, d)));
    }
  }
}

TEST(KvAppend, SixteenBitCachesKeepWhatCame) {
  Rng rng = test_rng();
  AppendCase c;
  c.dtype = FOVEA_BF16;
  c.kv.k.codec = c.kv.v.codec = FOVEA_CODEC_BF16;
  AppendProblem problem(c, rng);
  problem.k.set(0, kInf);
  problem.k.set(1, -kInf);
  problem.k.set(2, std::nan(""));
  problem.k.set(3, -0.0);
  for (const Backend& backend : backends(FOVEA_OP_KV_APPEND)) {
    RUN_OR_CONTINUE(run(backend, problem.params));
    const auto at = [&](int64_t d) { return oracle::k_at(problem.cache.kv(), problem.slot(0), 0, d); };
    EXPECT_EQ(at(0), kInf);
    EXPECT_EQ(at(1), -kInf);
    EXPECT_TRUE(std::isnan(at(2)));
    EXPECT_TRUE(std::signbit(at(3)) && at(3) == 0);
  }
}

TEST(KvAppend, NormAndRope) {
  Rng rng = test_rng();
  for (int32_t style : {FOVEA_ROPE_NEOX, FOVEA_ROPE_GPTJ}) {
    for (int32_t rotary : {0, 16, 40}) {
      for (int mode = 1; mode < 4; ++mode) {
        AppendCase c;
        c.kv.d_k = 64;
        c.kv.k.codec = c.kv.v.codec = rng.pick({FOVEA_CODEC_F32, FOVEA_CODEC_BF16});
        c.dtype = rng.pick({FOVEA_F32, FOVEA_BF16, FOVEA_F16});
        c.q_heads = 4;
        c.q_dtype = rng.pick({FOVEA_F32, FOVEA_BF16});
        c.norm = mode & 1;
        c.with_rope = mode & 2;
        c.rope = plain_rope(style, rotary);
        c.any_layout = true;
        check_append(c, rng);
        if (HasFailure()) return;
      }
    }
  }
}

TEST(KvAppend, EveryRopeScalingAndMrope) {
  Rng rng = test_rng();
  const std::vector<float> short_factor(32, 1.1f), long_factor(32, 3.5f);
  for (int32_t scaling = FOVEA_ROPE_SCALING_LINEAR; scaling <= FOVEA_ROPE_SCALING_LONGROPE; ++scaling) {
    AppendCase c;
    c.kv.d_k = 64;
    c.q_heads = 2;
    c.with_rope = true;
    c.rope.scaling = scaling;
    c.rope.factor = 4;
    if (scaling >= FOVEA_ROPE_SCALING_YARN) c.rope.original_max_position = 4096;
    if (scaling == FOVEA_ROPE_SCALING_LONGROPE) {
      c.rope.max_position = 131072;
      c.rope.factor = 32;
      c.rope.short_factor = short_factor.data();
      c.rope.long_factor = long_factor.data();
    }
    check_append(c, rng);
    if (HasFailure()) return;
  }
  for (int32_t interleaved : {0, 1}) {
    AppendCase c;
    c.kv.d_k = 64;
    c.with_rope = true;
    c.position_rows = 3;
    const int32_t sections[] = {12, 10, 10};
    std::copy(sections, sections + 3, c.rope.mrope_section);
    c.rope.mrope_interleaved = interleaved;
    check_append(c, rng);
  }
}

TEST(KvAppend, QueriesOfOtherDimsAndInPlace) {
  Rng rng = test_rng();
  AppendCase c;
  c.kv.d_k = 64;
  c.q_heads = 3;
  c.d_q = 96;
  c.norm = c.with_rope = true;
  c.rope = plain_rope(FOVEA_ROPE_NEOX, 32);
  c.any_layout = true;
  check_append(c, rng);
  AppendProblem problem(c, rng);
  const std::vector<double> q = problem.q.values();
  for (const Backend& backend : backends(FOVEA_OP_KV_APPEND)) {
    RUN_OR_CONTINUE(run(backend, problem.params));
    fovea_kv_append_params in_place = problem.params;
    in_place.q_out = in_place.q;
    RUN_OR_CONTINUE(run(backend, in_place));
    EXPECT_EQ(problem.q.bits(), problem.q_out.bits()) << backend.name;
    problem.q.assign(q);
  }
}

// Cache bytes are those of separate norm, rope and append of the rounded values: with f32 k nothing is rounded between.
TEST(KvAppend, FusedEqualsSeparate) {
  Rng rng = test_rng();
  for (int32_t style : {FOVEA_ROPE_NEOX, FOVEA_ROPE_GPTJ}) {
    AppendCase c;
    c.kv.d_k = 64;
    c.norm = c.with_rope = true;
    c.rope = plain_rope(style);
    AppendProblem fused(c, rng);
    for (const Backend& backend : backends(FOVEA_OP_KV_APPEND)) {
      if (backend.cuda && !(serves(backend, FOVEA_OP_NORM) && serves(backend, FOVEA_OP_ROPE))) continue;
      RUN_OR_CONTINUE(run(backend, fused.params));
      const std::vector<std::byte> want = fused.cache.bytes();
      fused.wipe();
      const TensorBox normed(FOVEA_F32, {c.tokens, 2, 64}), turned(FOVEA_F32, {c.tokens, 2, 64});
      NormParams norm;
      norm.x = fused.params.k;
      norm.out = normed;
      norm.weight = fused.k_weight;
      norm.weight_offset = 1;
      norm.eps = fused.params.norm_eps;
      ASSERT_TRUE(run(backend.context, norm));
      RopeParams rope;
      rope.x = normed;
      rope.out = turned;
      rope.positions = fused.positions;
      rope.config = &fused.c.rope;
      ASSERT_TRUE(run(backend.context, rope));
      fovea_kv_append_params separate = fused.params;
      separate.k = turned;
      separate.k_norm_weight = {};
      separate.norm_weight_offset = 0;
      separate.rope = nullptr;
      separate.positions = {};
      RUN_OR_CONTINUE(run(backend, separate));
      EXPECT_EQ(fused.cache.bytes(), want) << backend.name;
      fused.wipe();
    }
  }
}

// Values are rounded to the model's 16-bit type before they are encoded, so that bytes do not depend on fusion.
TEST(KvAppend, RoundsToSixteenBitsBeforeEncoding) {
  Rng rng = test_rng();
  AppendCase c;
  c.tokens = 64;
  c.dtype = FOVEA_BF16;
  c.kv = {.lens = {64}, .heads = 2, .d_k = 64, .d_v = 64};
  c.kv.k = c.kv.v = {FOVEA_CODEC_FP8, FOVEA_SCALE_TENSOR, FOVEA_F32, 0};
  c.with_rope = true;
  AppendProblem problem(c, rng);
  const oracle::Append64 want = oracle::append64(problem.params);
  for (const Backend& backend : backends(FOVEA_OP_KV_APPEND)) {
    RUN_OR_CONTINUE(run(backend, problem.params));
    const fovea_kv_side& side = problem.cache.kv().k;
    const double scale = oracle::decode(FOVEA_F32, side.scale.base);
    int twice = 0, once = 0, differ = 0;
    for (size_t i = 0; i < want.k.size(); ++i) {
      const auto token = static_cast<int64_t>(i) / 128, head = static_cast<int64_t>(i) / 64 % 2;
      const double got = oracle::side_at(side, problem.slot(token), head, static_cast<int64_t>(i % 64)) / scale;
      const double rounded = oracle::round_to(FOVEA_E4M3, oracle::round_to(FOVEA_BF16, want.k[i]) / scale);
      const double direct = oracle::round_to(FOVEA_E4M3, want.k[i] / scale);
      differ += rounded != direct;
      twice += std::fabs(got - rounded) > 1e-6 * std::fabs(rounded);
      once += std::fabs(got - direct) > 1e-6 * std::fabs(direct);
    }
    EXPECT_GT(differ, 40) << "the case does not show the rounding";
    EXPECT_LT(twice * 10, differ) << backend.name;
    EXPECT_GT(once * 2, differ) << backend.name;
  }
}

TEST(BugCorpus, B04_NegativeSlotsWriteNothing) {
  Rng rng = test_rng();
  for (int64_t skip : {int64_t{-1}, int64_t{INT32_MIN}}) {
    AppendCase c;
    AppendProblem problem(c, rng);
    for (int64_t i : {0, 3, 8}) *static_cast<int32_t*>(problem.slots.at(i)) = static_cast<int32_t>(skip);
    for (int64_t e = 0; e < 64; ++e) problem.k.set(e, std::nan(""));  // a padding row of a graph
    for (const Backend& backend : backends(FOVEA_OP_KV_APPEND)) {
      RUN_OR_CONTINUE(run(backend, problem.params));
      problem.check();
    }
  }
}

// A slot past the pool writes nothing and sets the status word, which stays set; a checked call refuses it by name.
TEST(KvAppend, SlotsPastThePool) {
  Rng rng = test_rng();
  AppendCase c;
  c.index_dtype = FOVEA_I64;
  AppendProblem problem(c, rng);
  const int64_t past = problem.capacity();
  for (int64_t bad : {past, past + 1000, int64_t{1} << 40, INT64_MAX}) {
    std::memcpy(problem.slots.at(4), &bad, 8);
    for (const Backend& backend : backends(FOVEA_OP_KV_APPEND)) {
      uint32_t status = 0;
      Exec exec;
      exec.status = &status;
      RUN_OR_CONTINUE(run(backend, problem.params, exec));
      EXPECT_EQ(status, static_cast<uint32_t>(FOVEA_INVALID_VALUE));
      problem.check();
      exec.status = nullptr;
      RUN_OR_CONTINUE(run(backend, problem.params, exec));
      problem.check();
      exec.flags = FOVEA_EXEC_CHECK;
      const Outcome result = run(backend, problem.params, exec);
      EXPECT_EQ(result.code, FOVEA_INVALID_VALUE);
      EXPECT_TRUE(names(result.message, "slot_mapping"));
      EXPECT_TRUE(names(result.message, std::to_string(bad)));
      EXPECT_EQ(problem.cache.bytes(), problem.before) << "wrote before refusing";
    }
  }
  int64_t fine = -1;
  std::memcpy(problem.slots.at(4), &fine, 8);
  for (const Backend& backend : backends(FOVEA_OP_KV_APPEND)) {
    uint32_t status = FOVEA_DEVICE;  // sticky: a good call leaves it
    Exec exec;
    exec.status = &status;
    RUN_OR_CONTINUE(run(backend, problem.params, exec));
    EXPECT_EQ(status, static_cast<uint32_t>(FOVEA_DEVICE)) << backend.name;
  }
}

// With a rope tail the norm covers what is before it, and RoPE the tail alone.
TEST(KvAppend, MlaWithRopeTailAndValuesInKeys) {
  Rng rng = test_rng();
  for (KvLayout layout : {KvLayout::nhd, KvLayout::record}) {
    for (int mode = 0; mode < 4; ++mode) {
      AppendCase c;
      c.dtype = FOVEA_BF16;
      c.kv = {.lens = {40}, .heads = 1, .d_k = 576, .d_v = 512, .page_size = 64};
      c.kv.v_in_k = true;
      c.kv.d_rope = 64;
      c.kv.k = {FOVEA_CODEC_FP8, FOVEA_SCALE_GROUP, FOVEA_F32, 128};
      c.kv.layout = layout;
      c.q_heads = 3;
      c.q_dtype = FOVEA_BF16;
      c.norm = mode & 1;
      c.with_rope = mode & 2;
      c.rope = plain_rope(FOVEA_ROPE_GPTJ);
      check_append(c, rng);
      if (HasFailure()) return;
    }
  }
}

TEST(KvAppend, EmptyAndOddShapes) {
  Rng rng = test_rng();
  for (int64_t tokens : {0, 1, 2}) {
    for (int32_t d : {1, 7, 17, 100, 256}) {
      AppendCase c;
      c.tokens = tokens;
      c.kv.d_k = d;
      c.kv.d_v = d + 1;
      c.kv.heads = 3;
      c.dtype = c.kv.k.codec = c.kv.v.codec = FOVEA_F16;
      check_append(c, rng);
      if (HasFailure()) return;
    }
  }
}

// Slots whose byte offset is far above 2^31, in a pool of sparse memory.
TEST(BugCorpus, C09_C14_AppendBeyondTwoToThe31) {
  Rng rng = test_rng();
  constexpr int64_t kRow = 8 * 128, kPages = (int64_t{1} << 31) / kRow * 2 + 64;  // page size 1
  const Sparse k_pool(kPages * kRow * 2), v_pool(kPages * kRow * 2);
  fovea_kv kv;
  kv.heads = 8;
  kv.d_k = kv.d_v = 128;
  kv.page_size = 1;
  kv.pages = kPages;
  kv.k.codec = kv.v.codec = FOVEA_CODEC_F16;
  kv.k.data = {k_pool.data(), kRow * 2, kRow * 2, 256};
  kv.v.data = {v_pool.data(), kRow * 2, kRow * 2, 256};
  const std::vector<int64_t> where = {kPages / 2 - 33, kPages / 2 - 32, kPages / 2, kPages - 1, 0};
  const auto tokens = static_cast<int64_t>(where.size());
  const TensorBox slots = indices(where, FOVEA_I64);
  const TensorBox k = floats(draw(rng, Values::normal, tokens * 8, 128), FOVEA_F16, {tokens, 8, 128});
  const TensorBox v = floats(draw(rng, Values::normal, tokens * 8, 128), FOVEA_F16, {tokens, 8, 128});
  fovea_kv_append_params p;
  p.k = k;
  p.v = v;
  p.kv = &kv;
  p.slot_mapping = slots;
  for (const Backend& backend : backends(FOVEA_OP_KV_APPEND)) {
    RUN_OR_CONTINUE(run(backend, p));
    for (int64_t i = 0; i < tokens; ++i) {
      const int64_t row = where[static_cast<size_t>(i)] * kRow * 2;
      ASSERT_EQ(std::memcmp(k_pool.data() + row, k.at(i * kRow), kRow * 2), 0) << backend.name << " " << i;
      ASSERT_EQ(std::memcmp(v_pool.data() + row, v.at(i * kRow), kRow * 2), 0) << backend.name << " " << i;
      std::memset(k_pool.data() + row, 0, kRow * 2);
      std::memset(v_pool.data() + row, 0, kRow * 2);
    }
  }
}

TEST(KvAppend, Mistakes) {
  using Change = void (*)(fovea_kv_append_params&, fovea_kv&, AppendProblem&);
  const struct {
    const char* word;
    Change change;
    bool by_value = false;  // only the memory shows it: a device looks in checked calls alone
  } mistakes[] = {
      {"k", [](auto& p, auto&, auto&) { p.k = {}; }},
      {"k", [](auto& p, auto&, auto&) { p.k.dtype = FOVEA_E4M3; }},
      {"k", [](auto& p, auto&, auto&) { p.k.rank = 2; }},
      {"k", [](auto& p, auto&, auto&) { p.k.shape[1] = 1; }},
      {"k", [](auto& p, auto&, auto&) { p.k.shape[2] = 31; }},
      {"k", [](auto& p, auto&, auto&) { p.k.stride[2] = 2; }},
      {"k", [](auto& p, auto&, auto&) { p.k.data = nullptr; }},
      {"v", [](auto& p, auto&, auto&) { p.v = {}; }},
      {"v", [](auto& p, auto&, auto&) { p.v.shape[0] = 2; }},
      {"v", [](auto& p, auto&, auto&) { p.v.shape[2] = 31; }},
      {"kv", [](auto& p, auto&, auto&) { p.kv = nullptr; }},
      {"page_size", [](auto&, auto& kv, auto&) { kv.page_size = 0; }},
      {"base", [](auto&, auto& kv, auto&) { kv.k.data.base = nullptr; }},
      {"slot_mapping", [](auto& p, auto&, auto&) { p.slot_mapping = {}; }},
      {"slot_mapping", [](auto& p, auto&, auto&) { p.slot_mapping.shape[0] -= 1; }},
      {"slot_mapping", [](auto& p, auto&, auto&) { p.slot_mapping.dtype = FOVEA_F32; }},
      {"q_out", [](auto& p, auto&, auto&) { p.q_out = {}; }},
      {"q_out", [](auto& p, auto&, auto&) { p.q_out.shape[1] = 1; }},
      {"q_out", [](auto& p, auto&, auto&) { p.q_out.dtype = FOVEA_I32; }},
      {"q", [](auto& p, auto&, auto&) { p.q = {}; }},
      {"q_norm_weight", [](auto& p, auto&, auto&) { p.q_norm_weight.shape[0] = 8; }},
      {"k_norm_weight", [](auto& p, auto&, auto&) { p.k_norm_weight.shape[0] = 8; }},
      {"norm_eps", [](auto& p, auto&, auto&) { p.norm_eps = -1; }},
      {"positions", [](auto& p, auto&, auto&) { p.positions = {}; }},
      {"positions", [](auto& p, auto&, auto&) { p.rope = nullptr; }},
      {"positions",
       [](auto& p, auto&, auto& a) {
         a.positions.set(2, -3);
         p.positions = a.positions;
       },
       true},
      {"rotary_dim", [](auto&, auto&, auto& a) { a.c.rope.rotary_dim = 33; }},
      {"rotary_dim", [](auto&, auto&, auto& a) { a.c.rope.rotary_dim = 66; }},
      {"style", [](auto&, auto&, auto& a) { a.c.rope.style = 5; }},
      {"struct_size", [](auto& p, auto&, auto&) { p.struct_size = 4; }},
  };
  Rng rng = test_rng();
  AppendCase c;
  c.q_heads = 2;
  c.norm = c.with_rope = true;
  for (const auto& mistake : mistakes) {
    AppendProblem problem(c, rng);
    fovea_kv kv = problem.cache.kv();
    fovea_kv_append_params p = problem.params;
    p.kv = &kv;
    p.rope = &problem.c.rope;
    mistake.change(p, kv, problem);
    for (const Backend& backend : backends(FOVEA_OP_KV_APPEND)) {
      Exec exec;
      exec.flags = backend.cuda && mistake.by_value ? FOVEA_EXEC_CHECK : 0;
      const Outcome result = run(backend, p, exec);
      if (result.refused && !names(result.message, mistake.word)) continue;
      EXPECT_NE(result.code, FOVEA_OK) << mistake.word << " " << &mistake - mistakes;
      EXPECT_NE(result.code, FOVEA_INTERNAL);
      EXPECT_TRUE(names(result.message, mistake.word)) << &mistake - mistakes;
      EXPECT_EQ(problem.cache.bytes(), problem.before) << "wrote before refusing";
      EXPECT_TRUE(problem.q_out.memory().all(kPoison)) << "wrote before refusing";
    }
  }
}

}  // namespace
}  // namespace fovea::test
