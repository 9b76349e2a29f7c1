// SPDX-License-Identifier: Apache-2.0
// Which family of CUDA kernels serves a call, and with which constants.
#include <gtest/gtest.h>

#include <algorithm>

#include "fovea/core.h"
#include "plan/attention.h"
#include "plan/catalogue.h"

namespace fovea {
namespace {

AttentionSpec spec_of(Dtype q, Codec codec, int d_k, int d_v, int64_t q_len) {
  AttentionSpec spec;
  spec.q = q;
  spec.out = q == Dtype::e4m3 ? Dtype::bf16 : q;
  spec.heads = 8;
  spec.group = 4;
  spec.batch = 4;
  spec.max_q_len = q_len;
  spec.tokens = 4 * q_len;
  KvSpec& kv = spec.kv[0];
  kv.heads = 2;
  kv.d_k = d_k;
  kv.d_v = d_v;
  kv.max_len = 4096;
  kv.k.codec = kv.v.codec = codec;
  if (codec == Codec::fp8) {
    kv.k.scale_kind = kv.v.scale_kind = ScaleKind::head;
    kv.k.scale_dtype = kv.v.scale_dtype = Dtype::f32;
  }
  return spec;
}

Caps card(const char* arch) {
  return caps_of(*find_cuda_arch(arch));
}
int row_of(const char* name) {
  return static_cast<int>(find_attention_kernel(name) - kAttentionKernels);
}
int constant(const AttentionPlan& plan, std::string_view name) {
  for (const KernelConstant& c : plan.kernels[0].request.constants) {
    if (c.name == name) return c.value;
  }
  ADD_FAILURE() << "no constant " << name;
  return -1;
}
AttentionPlan plan_of(const AttentionSpec& spec, const char* arch) {
  AttentionPlan plan;
  const Status status = make_plan(spec, card(arch), plan);
  EXPECT_TRUE(status.ok()) << status.message();
  return plan;
}
std::string chosen(const AttentionSpec& spec, const char* arch) {
  return plan_of(spec, arch).kernel;
}
std::string refusal(AttentionSpec spec, const char* kernel, const char* arch) {
  if (kernel != nullptr) spec.kernel = row_of(kernel);
  AttentionPlan plan;
  const Status status = make_plan(spec, card(arch), plan);
  EXPECT_EQ(status.code(), FOVEA_UNSUPPORTED);
  return status.message();
}

TEST(AttentionFamilies, TheBestForTheCard) {
  const AttentionSpec half = spec_of(Dtype::f16, Codec::f16, 128, 128, 1);
  EXPECT_EQ(chosen(half, "70"), "sm70");
  EXPECT_EQ(chosen(half, "75"), "sm75");
  for (const char* arch : {"80", "86", "87", "89", "90a", "100f", "110f", "120f"})
    EXPECT_EQ(chosen(half, arch), "sm80");
  const AttentionSpec bytes = spec_of(Dtype::e4m3, Codec::fp8, 128, 128, 1);
  EXPECT_EQ(chosen(bytes, "75"), "sm75");
  EXPECT_EQ(chosen(bytes, "87"), "sm80");
  for (const char* arch : {"89", "90a", "120f"}) EXPECT_EQ(chosen(bytes, arch), "sm89");
  EXPECT_EQ(chosen(spec_of(Dtype::e4m3, Codec::f16, 128, 128, 1), "90a"), "sm80");
  AttentionSpec rope = bytes;
  rope.kv[0].d_rope = 64;
  rope.kv[0].rope_dtype = Dtype::f16;
  EXPECT_EQ(chosen(rope, "90a"), "sm80");
}

TEST(AttentionFamilies, ForcedOnNewerCardsAlone) {
  AttentionSpec spec = spec_of(Dtype::f16, Codec::f16, 128, 128, 1);
  spec.kernel = row_of("sm75_decode");
  for (const char* arch : {"75", "80", "90a", "120f"}) {
    const AttentionPlan plan = plan_of(spec, arch);
    EXPECT_EQ(plan.kernels[0].request.entry, "attention_decode_sm75");
    EXPECT_EQ(plan.kernels[0].request.arch, find_cuda_arch(arch)->arch);
  }
  EXPECT_EQ(refusal(spec, "sm80", "75"), "attention: kernel sm80 is not for this device");
  EXPECT_EQ(refusal(spec, "sm89", "90a"), "attention: kernel sm89 serves q of e4m3 over keys of fp8, without k_rope");
}

// Row blocks of one length run together, of as many sequences and units as L2 holds keys of.
TEST(AttentionFamilies, UnitsTogether) {
  const auto together = [](int64_t batch, int64_t len, int32_t heads, const char* arch) {
    AttentionSpec spec = spec_of(Dtype::bf16, Codec::bf16, 128, 128, len);
    spec.heads = spec.kv[0].heads = heads;
    spec.group = 1;
    spec.batch = batch;
    spec.tokens = batch * len;
    spec.kv[0].max_len = len;
    spec.kernel = row_of("sm80_prefill");
    const AttentionPlan plan = plan_of(spec, arch);
    EXPECT_EQ(plan.launches[0].units % plan.launches[0].together, 0);
    return plan.launches[0].together;
  };
  EXPECT_EQ(together(16, 1024, 16, "90a"), 2);  // 50 pairs: 3 units, which do not divide 16
  EXPECT_EQ(together(1, 16384, 16, "90a"), 16);
  EXPECT_EQ(together(1, 16384, 40, "90a"), 10);
  EXPECT_EQ(together(1, 128, 40, "90a"), 40);
  EXPECT_EQ(together(4, 128, 12, "90a"), 12);
  EXPECT_EQ(together(100, 128, 8, "90a"), 2);
  EXPECT_EQ(together(100, 128, 7, "90a"), 1);
  EXPECT_EQ(together(100, 65536, 8, "90a"), 1);
}

TEST(AttentionFamilies, BytesMeetAsBytes) {
  const AttentionPlan plan = plan_of(spec_of(Dtype::e4m3, Codec::fp8, 80, 80, 1), "89");
  EXPECT_EQ(constant(plan, "q8"), 1);
  EXPECT_EQ(constant(plan, "d_main"), 96);
  EXPECT_EQ(constant(plan, "kind"), static_cast<int>(Dtype::f16));  // of V's product
  EXPECT_EQ(constant(plan_of(spec_of(Dtype::e4m3, Codec::fp8, 80, 80, 1), "80"), "q8"), 0);
}

// Without products of bf16: its rows become f16, with a power of two each.
TEST(AttentionFamilies, BrainFloatsWithoutTheirProducts) {
  const AttentionSpec spec = spec_of(Dtype::bf16, Codec::bf16, 128, 128, 1);
  const AttentionPlan plan = plan_of(spec, "75");
  for (const char* name : {"k_narrow", "v_narrow", "q_factors", "general"}) EXPECT_EQ(constant(plan, name), 1) << name;
  EXPECT_EQ(constant(plan, "kind"), static_cast<int>(Dtype::f16));
  EXPECT_NE(explain(plan).find("rows of bf16 as f16 with a power of two each"), std::string::npos);
  const AttentionPlan own = plan_of(spec, "80");
  for (const char* name : {"k_narrow", "v_narrow", "q_factors", "general"}) EXPECT_EQ(constant(own, name), 0) << name;
  EXPECT_EQ(explain(own).find("power of two"), std::string::npos);
  AttentionSpec mixed = spec_of(Dtype::f16, Codec::bf16, 128, 128, 1);
  EXPECT_EQ(constant(plan_of(mixed, "75"), "q_factors"), 0);
  EXPECT_NE(refusal(mixed, nullptr, "80").find("kv.k.codec is bf16, q is f16"), std::string::npos);
  AttentionSpec rope = spec;
  rope.kv[0].d_rope = 64;
  rope.kv[0].rope_dtype = Dtype::bf16;
  EXPECT_NE(refusal(rope, nullptr, "75").find("kv.rope_dtype is bf16"), std::string::npos);
  rope.kv[0].rope_dtype = Dtype::f16;
  EXPECT_NE(refusal(rope, nullptr, "75").find("bf16 with rope dims of f16"), std::string::npos);
}

// 64 KiB of shared memory: smaller tiles, and smaller parts of V before a refusal.
TEST(AttentionFamilies, FitTheSharedMemoryOfEachCard) {
  for (const char* arch : {"70", "75", "80", "86", "90a"}) {
    for (const int d : {8, 16, 64, 80, 128, 192, 256, 320, 512}) {
      for (const int64_t q_len : {1, 1000}) {
        const AttentionPlan plan = plan_of(spec_of(Dtype::f16, Codec::f16, d, std::min(d, 512), q_len), arch);
        for (int i = 0; i < plan.launch_count; ++i) {
          EXPECT_LE(attention_smem_bytes(plan.launches[i].shape), card(arch).smem_bytes) << arch << " " << d;
          EXPECT_GE(plan.launches[i].units / 2 * plan.launches[i].shape.d_v, d);
        }
      }
    }
  }
  EXPECT_EQ(plan_of(spec_of(Dtype::f16, Codec::f16, 512, 512, 1000), "75").launches[0].shape.d_v, 128);
  EXPECT_EQ(plan_of(spec_of(Dtype::f16, Codec::f16, 512, 512, 1000), "80").launches[0].shape.d_v, 256);
  EXPECT_NE(refusal(spec_of(Dtype::f32, Codec::f16, 512, 512, 1000), nullptr, "75").find("shared memory"),
            std::string::npos);
}

// One kernel of each family and role at least, for every architecture that its row allows.
TEST(AttentionFamilies, EachIsInTheCatalogue) {
  for (const CudaArchRow& row : kCudaArchs) {
    const std::vector<KernelRequest> kernels = catalogue(row.arch);
    for (const AttentionKernel& kernel : kAttentionKernels) {
      if (kernel.device_type != FOVEA_CUDA || kernel.role == AttentionRole::by_rows) continue;
      const std::string name = kernel.name, family = name.substr(0, 4), role = name.substr(5);
      const bool there = std::any_of(kernels.begin(), kernels.end(), [&](const KernelRequest& request) {
        return request.entry == "attention_" + role + "_" + family;
      });
      EXPECT_EQ(there, kernel.least_capability <= row.arch.number) << name << " for sm_" << fovea::name(row.arch);
    }
  }
}

}  // namespace
}  // namespace fovea
