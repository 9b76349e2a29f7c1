// SPDX-License-Identifier: Apache-2.0
#include "plan/merge_states.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "fovea/fovea.h"
#include "plan/catalogue.h"

namespace fovea {
namespace {

MergeStatesSpec spec_of(int parts, i64_t d) {
  MergeStatesSpec spec{.parts = parts, .out = Dtype::bf16, .batch = 1, .tokens = 100, .heads = 8, .d = d};
  std::fill_n(spec.outs, parts, Dtype::bf16);
  return spec;
}

TEST(MergeStatesPlan, OnCudaOneKernelOfTheCatalogue) {
  for (const CudaArchRow& row : kCudaArchs) {
    const std::vector<KernelRequest> all = catalogue(row.arch);
    for (const int parts : {1, 32, 33, 64}) {
      MergeStatesPlan plan;
      ASSERT_TRUE(make_plan(spec_of(parts, 128), caps_of(row), plan).ok());
      EXPECT_STREQ(plan.kernel, "cuda");
      ASSERT_EQ(plan.kernels.size(), 1u);
      const KernelRequest& request = plan.kernels[0].request;
      EXPECT_EQ(request.arch, row.arch);
      EXPECT_EQ(request.constants[0].value, parts <= 32 ? 32 : 64);
      EXPECT_NE(std::find(all.begin(), all.end(), request), all.end());
    }
  }
}

TEST(MergeStatesPlan, LanesFollowFromTheDims) {
  const Caps caps = caps_of(*find_cuda_arch("90a"));
  const std::pair<i64_t, int> cases[] = {{1, 8}, {64, 8}, {65, 16}, {128, 16}, {129, 32}, {576, 32}, {5000, 32}};
  for (const auto& [d, lanes] : cases) {
    MergeStatesPlan plan;
    ASSERT_TRUE(make_plan(spec_of(3, d), caps, plan).ok());
    EXPECT_EQ(plan.lanes, lanes) << d;
  }
  MergeStatesPlan plan;
  const Status status = make_plan(spec_of(3, i64_t{1} << 30), caps, plan);
  EXPECT_EQ(status.code(), FOVEA_UNSUPPORTED);
  EXPECT_EQ(status.message(), "merge_states: a row of 1073741824 elements");
}

TEST(MergeStatesPlan, Explains) {
  MergeStatesPlan plan;
  ASSERT_TRUE(make_plan(spec_of(3, 128), caps_of(*find_cuda_arch("80")), plan).ok());
  EXPECT_EQ(explain(plan),
            "merge_states: cuda, 3 parts in order, 16 lanes per row, merge_states<parts=32>, up to 800 rows of 128");
  ASSERT_TRUE(make_plan(spec_of(3, 128), {.device_type = FOVEA_CPU}, plan).ok());
  EXPECT_TRUE(plan.kernels.empty());
  EXPECT_EQ(explain(plan),
            "merge_states: cpu_rows, 3 parts in order, one task per block of rows, up to 800 rows of 128");
}

}  // namespace
}  // namespace fovea
