// SPDX-License-Identifier: Apache-2.0
// What the C and C++ interface say of device kernels, on machines without a device.
#include <gtest/gtest.h>

#include <string>

#include "fovea/fovea.hpp"

namespace {

TEST(DeviceKernels, ACpuContextHasNone) {
  const fovea::Context context;
  EXPECT_EQ(context.kernels(), "");
  EXPECT_EQ(fovea_context_save_kernels(context.get(), "/tmp/x"), FOVEA_UNSUPPORTED);
  EXPECT_EQ(std::string(fovea_last_error()), "this backend has no device kernels");
}

TEST(DeviceKernels, AContextForAnArchitectureNeedsNoDevice) {
  const fovea::Context context({.device_type = FOVEA_CUDA, .bundle = "", .cache_dir = "", .arch = "sm_80"});
  EXPECT_EQ(std::string(context.info().isa), "sm_80");
  EXPECT_EQ(std::string(context.info().bundle), "none: turned off");
  EXPECT_EQ(context.kernels(), "");
  EXPECT_EQ(fovea_context_save_kernels(context.get(), "/tmp/x"), FOVEA_INVALID_VALUE);
  EXPECT_EQ(fovea_context_save_kernels(context.get(), nullptr), FOVEA_INVALID_VALUE);
}

TEST(DeviceKernels, OperationsWithoutAKernelAreRefusedByName) {
  const fovea::Context context({.device_type = FOVEA_CUDA, .arch = "80"});
  const fovea::NormParams norm;
  EXPECT_EQ(fovea_supports(context.get(), FOVEA_OP_NORM, &norm), FOVEA_SUPPORT_NO);
  EXPECT_EQ(std::string(fovea_last_error()), "the cuda backend has no such operation");
}

// Tensors of a device that is not there: planning reads no memory.
fovea::Tensor on_device(int32_t dtype, std::initializer_list<int64_t> shape) {
  fovea::Tensor t;
  EXPECT_EQ(fovea_tensor_packed(reinterpret_cast<void*>(0x1000), dtype, static_cast<int32_t>(shape.size()),
                                shape.begin(), &t),
            FOVEA_OK);
  t.device_type = FOVEA_CUDA;
  return t;
}

TEST(DeviceKernels, OperationsWithAKernelArePlannedWithoutADevice) {
  const fovea::Tensor outs[] = {on_device(FOVEA_BF16, {4, 2, 64})}, lses[] = {on_device(FOVEA_F32, {4, 2})};
  fovea::MergeStatesParams merge;
  merge.parts = 1;
  merge.outs = outs;
  merge.lses = lses;
  merge.out = on_device(FOVEA_BF16, {4, 2, 64});
  const fovea::Context never({.device_type = FOVEA_CUDA, .bundle = "", .cache_dir = "", .arch = "80"});
  EXPECT_EQ(fovea_supports(never.get(), FOVEA_OP_MERGE_STATES, &merge), FOVEA_SUPPORT_AFTER_COMPILE);
  EXPECT_NE(std::string(fovea_last_error()).find("merge_states<parts=32> for sm_80"), std::string::npos);
  EXPECT_EQ(fovea_merge_states(never.get(), &merge, nullptr), FOVEA_NOT_COMPILED);
  merge.out.device_type = FOVEA_CPU;
  EXPECT_EQ(fovea_supports(never.get(), FOVEA_OP_MERGE_STATES, &merge), FOVEA_SUPPORT_NO);
  EXPECT_EQ(std::string(fovea_last_error()).substr(0, 3), "out") << fovea_last_error();
}

TEST(DeviceKernels, ThePlanOfAnArchitectureCannotRun) {
  fovea::Context context(
      {.device_type = FOVEA_CUDA, .compile = FOVEA_COMPILE_ALLOWED, .bundle = "", .cache_dir = "", .arch = "90a"});
  fovea::Kv kv{.heads = 2, .d_k = 64, .d_v = 64, .page_size = 16, .pages = 4};
  kv.k = {.codec = FOVEA_CODEC_BF16, .data = fovea::stream(on_device(FOVEA_BF16, {4, 16, 2, 64}))};
  kv.v = kv.k;
  fovea::KvAppendParams append;
  append.k = append.v = on_device(FOVEA_BF16, {3, 2, 64});
  append.kv = &kv;
  append.slot_mapping = on_device(FOVEA_I32, {3});
  fovea_plan* plan = nullptr;
  if (fovea_plan_create(context.get(), FOVEA_OP_KV_APPEND, &append, &plan) == FOVEA_NOT_COMPILED) {
    GTEST_SKIP() << fovea_last_error();  // no NVRTC
  }
  ASSERT_NE(plan, nullptr) << fovea_last_error();
  for (const uint32_t flags : {0u, static_cast<uint32_t>(FOVEA_EXEC_CHECK)}) {
    fovea::Exec exec;
    exec.flags = flags;
    EXPECT_EQ(fovea_plan_run(plan, &append, &exec), FOVEA_UNSUPPORTED);
    EXPECT_EQ(std::string(fovea_last_error()), "a context made with arch has no device to run on");
  }
  fovea_plan_destroy(plan);
  EXPECT_NE(context.kernels().find("kv_append<width=8, units=1> compiled"), std::string::npos);
}

TEST(DeviceKernels, ABundleThatIsNoneIsRefusedByName) {
  EXPECT_EQ(fovea_bundle_kernels("/none", nullptr, 0, nullptr), FOVEA_IO);
  EXPECT_EQ(fovea_bundle_kernels(nullptr, nullptr, 0, nullptr), FOVEA_INVALID_VALUE);
  EXPECT_EQ(std::string(fovea_last_error()), "path is null: must name a file");
  EXPECT_THROW(fovea::bundle_kernels("/none"), fovea::Error);
}

TEST(DeviceKernels, NullArgumentsAreNamed) {
  uint64_t needed = 0;
  EXPECT_EQ(fovea_context_kernels(nullptr, nullptr, 0, &needed), FOVEA_INVALID_VALUE);
  EXPECT_EQ(std::string(fovea_last_error()), "context is null: must be a context");
  EXPECT_EQ(fovea_context_save_kernels(nullptr, "/tmp/x"), FOVEA_INVALID_VALUE);
}

}  // namespace
