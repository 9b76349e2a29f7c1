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

TEST(DeviceKernels, NullArgumentsAreNamed) {
  uint64_t needed = 0;
  EXPECT_EQ(fovea_context_kernels(nullptr, nullptr, 0, &needed), FOVEA_INVALID_VALUE);
  EXPECT_EQ(std::string(fovea_last_error()), "context is null: must be a context");
  EXPECT_EQ(fovea_context_save_kernels(nullptr, "/tmp/x"), FOVEA_INVALID_VALUE);
}

}  // namespace
