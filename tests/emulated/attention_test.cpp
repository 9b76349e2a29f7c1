// SPDX-License-Identifier: Apache-2.0
// Each family of attention kernels, run on the host by its own code against the oracle. The conformance suite does more
// of this on cards; these few cases find a wrong fragment or a missing barrier without one.
#include <gtest/gtest.h>

#include "emulated/backend.h"
#include "support/attention_cases.h"

namespace fovea::test {
namespace {

AttentionCase any_rows(int32_t d) {
  AttentionCase c = simple_case({40, 1, 3}, {90, 33, 70}, 4, 2, d, d);
  c.options.mask = FOVEA_MASK_CAUSAL;
  c.kv[0].k.codec = c.kv[0].v.codec = FOVEA_CODEC_F16;
  c.q_dtype = FOVEA_F16;
  return c;
}
void set_fp8(SideSpec& side, int32_t kind) {
  side.codec = FOVEA_CODEC_FP8;
  side.scale_kind = kind;
  side.scale_dtype = FOVEA_F32;
}

class EmulatedFamily : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { emulated::choose_kernel(GetParam()); }
  void TearDown() override { emulated::choose_kernel(nullptr); }
  // By the family's kernels and no others.
  static void expect_right(const AttentionCase& c) {
    SCOPED_TRACE(c.text());
    Rng rng = test_rng();
    AttentionProblem problem(c, rng);
    const int before = emulated::attention_launches();
    EXPECT_TRUE(check_attention(problem));
    EXPECT_GT(emulated::attention_launches(), before) << "the family refused the case";
  }
};

TEST_P(EmulatedFamily, SixteenBits) {
  if (std::string(GetParam()) == "sm89") GTEST_SKIP() << "e4m3 queries alone";
  expect_right(any_rows(32));
  AttentionCase c = any_rows(40);  // rows that are not whole chunks of a warp's copies, at any address
  c.any_layout = true;
  c.options.split_size = 64;
  expect_right(c);
}

TEST_P(EmulatedFamily, WideQueriesOverBytes) {
  if (std::string(GetParam()) == "sm89") GTEST_SKIP() << "e4m3 queries alone";
  AttentionCase c = any_rows(32);
  c.q_dtype = FOVEA_F32;
  c.q_values = Values::huge;
  set_fp8(c.kv[0].k, FOVEA_SCALE_TOKEN_HEAD);
  set_fp8(c.kv[0].v, FOVEA_SCALE_HEAD);
  expect_right(c);
}

// Without products of bf16 its rows become f16, whatever their size.
TEST_P(EmulatedFamily, BrainFloats) {
  if (std::string(GetParam()) == "sm89") GTEST_SKIP() << "e4m3 queries alone";
  for (const Values values : {Values::normal, Values::huge, Values::denormal}) {
    AttentionCase c = any_rows(40);
    c.q_dtype = c.out_dtype = FOVEA_BF16;
    c.kv[0].k.codec = c.kv[0].v.codec = FOVEA_CODEC_BF16;
    c.k_values = c.v_values = values;
    c.q_values = values == Values::huge ? Values::denormal : Values::normal;
    c.any_layout = values == Values::huge;
    expect_right(c);
  }
}

TEST_P(EmulatedFamily, BytesOnBothSides) {
  AttentionCase c = any_rows(40);
  c.q_dtype = FOVEA_E4M3;
  c.out_dtype = FOVEA_BF16;
  c.options.q_scale = 0.5f;
  set_fp8(c.kv[0].k, FOVEA_SCALE_HEAD);
  expect_right(c);
  set_fp8(c.kv[0].v, FOVEA_SCALE_TOKEN_HEAD);
  c.any_layout = true;
  expect_right(c);
}

// Lengths that no memory stands behind are cut to what there is, and the status word says so: in plain builds and in
// those with every option.
TEST_P(EmulatedFamily, WrongLengthsAreReported) {
  if (std::string(GetParam()) == "sm89") GTEST_SKIP() << "e4m3 queries alone";
  struct Wrong {
    const char* name;
    TensorBox& (*tensor)(AttentionProblem&);
    int64_t entry;
    double value;
    bool padded = false;
  };
  const auto cu_seqlens_q = [](AttentionProblem& p) -> TensorBox& { return p.cu_seqlens_q; };
  const auto q_lens = [](AttentionProblem& p) -> TensorBox& { return p.q_lens; };
  const auto q_starts = [](AttentionProblem& p) -> TensorBox& { return p.q_starts; };
  const auto kv_lens = [](AttentionProblem& p) -> TensorBox& { return p.caches[0]->kv_lens; };
  const Wrong wrongs[] = {{"cu_seqlens_q ends past the rows", cu_seqlens_q, 3, 1000},
                          {"cu_seqlens_q begins before them", cu_seqlens_q, 0, -7},
                          {"cu_seqlens_q falls", cu_seqlens_q, 1, 43},
                          {"kv_lens has no memory", kv_lens, 1, 100000},
                          {"kv_lens is negative", kv_lens, 2, -1},
                          {"q_lens is past the rows", q_lens, 0, 1000, true},
                          {"q_lens is negative", q_lens, 1, -2, true},
                          {"q_starts is past the rows", q_starts, 0, 1000, true},
                          {"q_starts is negative", q_starts, 2, -3, true}};
  for (const bool general : {false, true}) {
    for (const Wrong& wrong : wrongs) {
      SCOPED_TRACE(std::string(wrong.name) + (general ? ", every option" : ""));
      AttentionCase c = any_rows(32);
      c.padded = wrong.padded;
      c.pad_front = wrong.padded ? 2 : 0;
      if (general) c.options.softcap = 20;
      Rng rng = test_rng();
      AttentionProblem problem(c, rng);
      wrong.tensor(problem).set(wrong.entry, wrong.value);
      for (const Backend& backend : backends(FOVEA_OP_ATTENTION)) {
        uint32_t status = 0;
        Exec exec;
        exec.status = &status;
        const Outcome result = run(backend, problem.params, exec);
        EXPECT_TRUE(result) << result.message;
        EXPECT_EQ(status, static_cast<uint32_t>(FOVEA_INVALID_VALUE));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, EmulatedFamily, testing::Values("sm70", "sm75", "sm80", "sm89"));

}  // namespace
}  // namespace fovea::test
