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

INSTANTIATE_TEST_SUITE_P(All, EmulatedFamily, testing::Values("sm70", "sm75", "sm80", "sm89"));

}  // namespace
}  // namespace fovea::test
