// SPDX-License-Identifier: Apache-2.0
#include "plan/kv_append.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "fovea/fovea.h"
#include "plan/catalogue.h"

namespace fovea {
namespace {

KvAppendSpec spec_of(int d_k, int d_v, RopeStyle style, int rotary_dim, int d_q = 0) {
  KvAppendSpec spec;
  spec.kv.heads = 8;
  spec.kv.d_k = d_k;
  spec.kv.d_v = d_v;
  spec.kv.page_size = 16;
  spec.kv.k.codec = spec.kv.v.codec = Codec::bf16;
  spec.rotary.style = style;
  spec.rotary.rotary_dim = rotary_dim;
  spec.rotary.theta = 10000;
  spec.k = spec.v = Dtype::bf16;
  spec.tokens = 100;
  if (d_q == 0) return spec;
  spec.q = spec.q_out = Dtype::bf16;
  spec.q_heads = 32;
  spec.d_q = d_q;
  return spec;
}

std::string kernel_of(const KvAppendSpec& spec, const char* arch = "90a") {
  KvAppendPlan plan;
  const Status status = make_plan(spec, caps_of(*find_cuda_arch(arch)), plan);
  if (!status.ok()) return status.message();
  EXPECT_STREQ(plan.kernel, "cuda");
  EXPECT_EQ(plan.kernels.size(), 1u);
  const std::vector<KernelRequest> all = catalogue(find_cuda_arch(arch)->arch);
  EXPECT_NE(std::find(all.begin(), all.end(), plan.kernels[0].request), all.end());
  return name(plan.kernels[0].request);
}

TEST(KvAppendPlan, OnCudaWideWhereDimsDivide) {
  const std::string wide = "kv_append<width=8, units=1>", two = "kv_append<width=8, units=2>";
  const std::string narrow = "kv_append<width=1, units=16>";
  for (const char* arch : {"70", "80", "90a", "120f"}) {
    EXPECT_EQ(kernel_of(spec_of(128, 128, RopeStyle::neox, 128), arch), wide);
  }
  EXPECT_EQ(kernel_of(spec_of(128, 64, RopeStyle::gptj, 40)), wide);
  EXPECT_EQ(kernel_of(spec_of(512, 512, RopeStyle::neox, 0)), wide);
  EXPECT_EQ(kernel_of(spec_of(576, 512, RopeStyle::neox, 64)), two);
  EXPECT_EQ(kernel_of(spec_of(1024, 128, RopeStyle::neox, 0)), two);
  EXPECT_EQ(kernel_of(spec_of(128, 128, RopeStyle::neox, 40)), narrow);  // halves of 20
  EXPECT_EQ(kernel_of(spec_of(128, 128, RopeStyle::gptj, 20)), narrow);
  EXPECT_EQ(kernel_of(spec_of(128, 100, RopeStyle::neox, 128)), narrow);
  EXPECT_EQ(kernel_of(spec_of(128, 128, RopeStyle::neox, 128, 132)), narrow);
  KvAppendSpec grouped = spec_of(128, 128, RopeStyle::neox, 128);
  grouped.kv.k = {Codec::fp8, ScaleKind::group, Dtype::f32, 32};
  EXPECT_EQ(kernel_of(grouped), wide);
  grouped.kv.k.scale_group = 12;
  EXPECT_EQ(kernel_of(grouped), narrow);
}

TEST(KvAppendPlan, RefusesOnEveryDeviceWhatTheCpuRefuses) {
  KvAppendSpec spec = spec_of(128, 128, RopeStyle::neox, 128);
  spec.kv.k = {Codec::f16, ScaleKind::token_head, Dtype::f32, 0};
  EXPECT_EQ(kernel_of(spec),
            "kv.k.scale_kind is token_head: kv_append computes scales for codecs fp8 and i8 to q2, not for f16");
  spec = spec_of(128, 128, RopeStyle::neox, 128);
  spec.kv.heads = (1 << 20) + 1;
  EXPECT_EQ(kernel_of(spec), "kv_append: 1048577 heads: at most 1048576 on this device");
}

TEST(KvAppendPlan, Explains) {
  KvAppendPlan plan;
  ASSERT_TRUE(make_plan(spec_of(128, 128, RopeStyle::neox, 128), caps_of(*find_cuda_arch("90a")), plan).ok());
  EXPECT_EQ(explain(plan),
            "kv_append: cuda, RoPE NeoX over 128 dims, angles in f64, K rounded to bf16, K as bf16, V as bf16; "
            "kv_append<width=8, units=1>, one block per token, 8 lanes per row of K, up to 100 tokens");
}

// Each dim belongs to exactly one chunk of one lane, and the chunks of a pair are those that turn with each other.
TEST(AppendShape, ChunksCoverEveryDimOnce) {
  for (const RopeStyle style : {RopeStyle::neox, RopeStyle::gptj}) {
    for (const int d : {1, 7, 8, 17, 40, 64, 128, 200, 576, 1024}) {
      for (const int tail : {0, 6, 64}) {
        for (const int turns : {0, 2, 16, 22, 64, 576}) {
          const int first = tail ? d - tail : 0;
          if (first < 0 || turns > d - first) continue;
          for (const int width : {1, 8}) {
            AppendShape s{.d = d, .main = tail ? first : d, .turned = first, .turns = turns};
            if (width == 8 && !append_is_wide(s, style, 0)) continue;
            append_cut(s, style, width);
            ASSERT_LE(append_units(s), s.lanes * (width == 8 ? 2 : 16));
            std::multiset<int> seen;
            for (int unit = 0; unit < s.lanes * 16; ++unit) {
              for (const int which : {0, 1}) {
                const int dim = append_chunk(s, width, unit, which);
                for (int j = 0; j < width && dim < d; ++j) seen.insert(dim + j);
              }
              if (unit >= s.pairs) continue;
              const int a = append_chunk(s, width, unit, 0), b = append_chunk(s, width, unit, 1);
              EXPECT_EQ(b - a, style == RopeStyle::neox ? turns / 2 : 1);
              EXPECT_EQ((a - first) / (style == RopeStyle::neox ? 1 : 2), unit * width);
            }
            ASSERT_EQ(static_cast<int>(seen.size()), d);
            ASSERT_EQ(std::set<int>(seen.begin(), seen.end()).size(), seen.size());
            ASSERT_EQ(*seen.rbegin(), d - 1);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace fovea
