// SPDX-License-Identifier: Apache-2.0
// Contexts without a device: policy, options, and bundles made for a deployment.
#include "backend/cuda/context.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "backend/cuda/cubin_file.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/temporary.h"
#include "fovea/fovea.h"
#include "plan/catalogue.h"
#include "shared/params/selftest.h"

namespace fovea::cuda {
namespace {

class OfflineContext : public testing::Test {
 protected:
  fovea_context_params params(int32_t compile) const {
    return {.device_type = FOVEA_CUDA, .compile = compile, .bundle = "", .cache_dir = cache_.c_str(), .arch = "90a"};
  }
  Status create(const fovea_context_params& params) { return CudaContext::create(params, context_); }
  Status kernel(int block, const LoadScope& scope = {}) {
    return cuda(*context_).kernel(selftest_kernel(context_->caps.arch, block), scope, kernel_);
  }
  void fill_cache(const KernelRequest& request) const {
    KernelSource source;
    ASSERT_TRUE(make_kernel_source(Sources::instance(), request, source).ok());
    DiskCache cache(cache_);
    std::string out;
    bool compiled = false;
    const auto make = [&](std::string& made) -> Status {
      made = cubin_file(std::string(request.entry));
      return {};
    };
    ASSERT_TRUE(cache.find_or_make(source.key, machine_nvrtc()->version(), make, out, compiled).ok());
  }
  fovea_device_info info() const {
    fovea_device_info info;
    context_->describe(info);
    return info;
  }

  TemporaryFolder folder_;
  const std::string cache_ = folder_.path("cache");
  std::unique_ptr<BackendContext> context_;
  const Kernel* kernel_ = nullptr;
};

TEST_F(OfflineContext, NeverCompilesUnlessAllowed) {
  ASSERT_TRUE(create(params(FOVEA_COMPILE_NEVER)).ok());
  EXPECT_EQ(kernel(128).code(), FOVEA_NOT_COMPILED);
  EXPECT_EQ(info().kernels_loaded, 0);
  EXPECT_EQ(info().kernels_compiled, 0);
}

TEST_F(OfflineContext, AllowedCompilesWhatIsAskedForOnce) {
  SKIP_WITHOUT_NVRTC();
  ASSERT_TRUE(create(params(FOVEA_COMPILE_ALLOWED)).ok());
  EXPECT_EQ(info().kernels_compiled, 0);
  EXPECT_EQ(kernel(128, {.query = true}).code(), FOVEA_NOT_COMPILED) << "a question must not compile";
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      const Kernel* mine = nullptr;
      EXPECT_TRUE(cuda(*context_).kernel(selftest_kernel(context_->caps.arch, 128), {}, mine).ok());
      EXPECT_NE(mine, nullptr);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(info().kernels_compiled, 1);
  EXPECT_EQ(info().kernels_loaded, 1);
  EXPECT_TRUE(kernel(128, {.query = true}).ok());
}

TEST_F(OfflineContext, WarmReadiesTheCatalogueAndNothingLater) {
  SKIP_WITHOUT_NVRTC();
  const std::vector<KernelRequest> kernels = catalogue(find_cuda_arch("90a")->arch);
  for (const KernelRequest& request : kernels) {
    if (request.entry != "selftest") fill_cache(request);  // compiling everything would take minutes
  }
  ASSERT_TRUE(create(params(FOVEA_COMPILE_WARM)).ok());
  const auto is_selftest = [](const KernelRequest& request) { return request.entry == "selftest"; };
  EXPECT_EQ(info().kernels_compiled, std::count_if(kernels.begin(), kernels.end(), is_selftest));
  EXPECT_EQ(info().kernels_loaded, static_cast<int32_t>(kernels.size()));
  EXPECT_TRUE(kernel(128).ok());
  EXPECT_EQ(kernel(96).code(), FOVEA_NOT_COMPILED);  // not of the catalogue
  const std::string list = context_->list_kernels();
  EXPECT_NE(list.find(" selftest<block=128> compiled "), std::string::npos) << list;
  EXPECT_EQ(std::count(list.begin(), list.end(), '\n'), static_cast<std::ptrdiff_t>(kernels.size()));
}

TEST_F(OfflineContext, SaysWhatAKernelNeeds) {
  SKIP_WITHOUT_NVRTC();
  ASSERT_TRUE(create(params(FOVEA_COMPILE_ALLOWED)).ok());
  ASSERT_TRUE(kernel(128).ok());
  EXPECT_GT(kernel_->registers, 0);
  EXPECT_EQ(kernel_->local_bytes, 0);
  EXPECT_EQ(kernel_->max_threads, 128);
}

TEST_F(OfflineContext, WarmWithoutACompilerIsAnError) {
  fovea_context_params without = params(FOVEA_COMPILE_WARM);
  const std::string nowhere = folder_.path("nowhere");
  without.nvrtc = nowhere.c_str();
  EXPECT_EQ(create(without).code(), FOVEA_NOT_COMPILED);
  EXPECT_EQ(context_, nullptr);
}

TEST_F(OfflineContext, SavesABundleForADeployment) {
  SKIP_WITHOUT_NVRTC();
  const std::string path = folder_.path("model.bundle");
  ASSERT_TRUE(create(params(FOVEA_COMPILE_ALLOWED)).ok());
  EXPECT_EQ(context_->save_kernels(path).code(), FOVEA_INVALID_VALUE);  // no kernel yet
  ASSERT_TRUE(kernel(96).ok());
  ASSERT_TRUE(kernel(160).ok());
  ASSERT_TRUE(context_->save_kernels(path).ok());
  fovea_context_params deployed = params(FOVEA_COMPILE_NEVER);
  deployed.cache_dir = "";
  deployed.bundle = path.c_str();
  ASSERT_TRUE(create(deployed).ok());
  EXPECT_TRUE(kernel(96).ok());
  EXPECT_EQ(kernel_->origin, Origin::bundle);
  EXPECT_TRUE(kernel(160).ok());
  EXPECT_EQ(kernel(128).code(), FOVEA_NOT_COMPILED);
  EXPECT_TRUE(std::string(info().bundle).starts_with(path + ": 2 kernels")) << info().bundle;
  EXPECT_EQ(std::string(info().cache), "none: turned off");
}

TEST_F(OfflineContext, CannotLaunch) {
  SKIP_WITHOUT_NVRTC();
  ASSERT_TRUE(create(params(FOVEA_COMPILE_ALLOWED)).ok());
  std::vector<KernelUse> uses = {{selftest_kernel(context_->caps.arch, 128)}};
  ASSERT_TRUE(context_->load(uses, {}).ok());
  const Status status = launch(cuda(*context_), uses[0], {}, SelftestArgs{}, nullptr);
  EXPECT_EQ(status.code(), FOVEA_UNSUPPORTED);
  EXPECT_EQ(status.message(), "a context made with arch has no device to run on");
}

TEST_F(OfflineContext, DescribesItsArchitecture) {
  ASSERT_TRUE(create(params(FOVEA_COMPILE_NEVER)).ok());
  EXPECT_EQ(std::string(info().isa), "sm_90a");
  EXPECT_EQ(std::string(info().name), "no device");
  EXPECT_EQ(std::string(info().cache), cache_);
  EXPECT_EQ(info().compute_capability, 0);
  EXPECT_EQ(context_->caps.compute_capability, 90);
  EXPECT_EQ(context_->caps.smem_bytes, 232448);
}

std::string creation_error(const fovea_context_params& params) {
  fovea_context* context = nullptr;
  const fovea_status code = fovea_context_create(&params, &context);
  const std::string message = code == FOVEA_OK ? "created" : fovea_last_error();
  fovea_context_destroy(context);
  return message;
}

TEST(CudaOptions, AreActedOnOrRefused) {
  EXPECT_EQ(creation_error({.device_type = FOVEA_CUDA, .arch = "91"}),
            "arch is \"91\": must be one of 70, 75, 80, 86, 87, 89, 90a, 100f, 110f, 120f");
  EXPECT_EQ(creation_error({.device_type = FOVEA_CUDA, .device_id = 1, .arch = "80"}),
            "device_id is 1: must be 0 where arch is given: no device is used");
  EXPECT_EQ(creation_error({.device_type = FOVEA_CUDA, .threads = 2}), "threads is 2: must be 0 on CUDA");
  EXPECT_EQ(creation_error({.device_type = FOVEA_CUDA, .isa = "AVX2"}), "isa is \"AVX2\": must be null on CUDA");
  const fovea_thread_pool pool;
  EXPECT_EQ(creation_error({.device_type = FOVEA_CUDA, .pool = &pool}), "pool is given: must be null on CUDA");
  EXPECT_EQ(creation_error({.device_type = FOVEA_CUDA, .compile = 3}),
            "compile is 3: must be FOVEA_COMPILE_NEVER, FOVEA_COMPILE_ALLOWED or FOVEA_COMPILE_WARM");
  EXPECT_EQ(creation_error({.compile = 1}), "compile is 1: must be 0 on the CPU");
  EXPECT_EQ(creation_error({.compile_threads = 1}), "compile_threads is 1: must be 0 on the CPU");
  EXPECT_EQ(creation_error({.device_type = FOVEA_CUDA, .compile_threads = 2}),
            "compile_threads is 2: only FOVEA_COMPILE_WARM has it");
  EXPECT_EQ(creation_error({.bundle = "b"}), "bundle is \"b\": must be null on the CPU");
  EXPECT_EQ(creation_error({.cache_dir = ""}), "cache_dir is \"\": must be null on the CPU");
  EXPECT_EQ(creation_error({.nvrtc = "n"}), "nvrtc is \"n\": must be null on the CPU");
  EXPECT_EQ(creation_error({.arch = "80"}), "arch is \"80\": must be null on the CPU");
}

TEST(CudaOptions, AMachineWithoutADriverSaysSo) {
  const Driver* driver = nullptr;
  const Status status = Driver::instance(driver);
  if (status.ok()) GTEST_SKIP() << "this machine has one";
  EXPECT_EQ(status.code(), FOVEA_UNSUPPORTED);
  EXPECT_EQ(creation_error({.device_type = FOVEA_CUDA}), status.message());
  EXPECT_TRUE(status.message().find("driver") != std::string::npos) << status.message();
}

}  // namespace
}  // namespace fovea::cuda
