// SPDX-License-Identifier: Apache-2.0
// The runtime on a device: bundle, compiler, cache, launches on streams and in graphs. Skipped where there is none.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/build_bundle.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/temporary.h"
#include "plan/catalogue.h"
#include "shared/params/selftest.h"

namespace fovea::cuda {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

class OnDevice : public testing::Test {
 protected:
  void SetUp() override {
    const Driver* driver = nullptr;
    const Status status = Driver::instance(driver);
    if (!status.ok()) GTEST_SKIP() << status.message();
    driver_ = driver;
  }
  void TearDown() override {
    if (stream_ != nullptr) ok(driver_->call(api().stream_destroy, stream_));
    for (const DevicePtr p : memory_) ok(driver_->call(api().mem_free, p));
    current_.reset();
  }

  const DriverApi& api() const { return driver_->api(); }
  static void ok(const Status& status) { ASSERT_TRUE(status.ok()) << status.message(); }

  void create(int32_t compile, const std::string& cache, const std::string& bundle = "") {
    const fovea_context_params params{
        .device_type = FOVEA_CUDA, .compile = compile, .bundle = bundle.c_str(), .cache_dir = cache.c_str()};
    ok(CudaContext::create(params, context_));
    if (current_ == nullptr) current_ = std::make_unique<ScopedContext>(cuda(*context_).primary());
    if (stream_ == nullptr) ok(driver_->call(api().stream_create, &stream_, kStreamNonBlocking));
  }
  KernelRequest request(int block) const { return selftest_kernel(context_->caps.arch, block); }

  DevicePtr allocate(size_t bytes) {
    DevicePtr p = 0;
    ok(driver_->call(api().mem_alloc, &p, bytes));
    memory_.push_back(p);
    return p;
  }

  // Inputs of n elements, and outputs full of NaN.
  void fill(int64_t n) {
    n_ = n;
    x_.resize(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) x_[static_cast<size_t>(i)] = f32_to_bf16(static_cast<float>(i % 251) - 100);
    args_.x = reinterpret_cast<const u16_t*>(allocate(x_.size() * 2));
    args_.out = reinterpret_cast<float*>(allocate(x_.size() * 4));
    args_.n = n;
    args_.scale = 0.5f;
    ok(driver_->call(api().memcpy_h2d_async, device(args_.x), static_cast<const void*>(x_.data()), x_.size() * 2,
                     stream_));
    poison();
  }
  void poison() {
    ok(driver_->call(api().memset_d8_async, device(args_.out), static_cast<unsigned char>(0xFF), x_.size() * 4,
                     stream_));
  }
  template <class T>
  static DevicePtr device(const T* p) {
    return reinterpret_cast<DevicePtr>(p);
  }
  LaunchShape shape(int block) const {
    const auto threads = static_cast<unsigned>(block);
    return {.grid = {static_cast<unsigned>((n_ + block - 1) / block)},
            .block = {threads},
            .smem_bytes = static_cast<unsigned>(selftest_smem_bytes(block))};
  }
  void expect_result(int block, float scale) {
    std::vector<float> out(x_.size());
    ok(driver_->call(api().memcpy_d2h_async, static_cast<void*>(out.data()), device(args_.out), out.size() * 4,
                     stream_));
    ok(driver_->call(api().stream_synchronize, stream_));
    for (int64_t i = 0; i < n_; ++i) {
      const int64_t first = i / block * block, count = std::min<int64_t>(block, n_ - first);
      const float want = scale * bf16_to_f32(x_[static_cast<size_t>(first + count - 1 - (i - first))]);
      ASSERT_EQ(out[static_cast<size_t>(i)], want) << i;
    }
  }
  std::string make_bundle(const std::string& folder) {
    const BuildOptions build{.arch = context_->caps.arch, .compilers = {machine_nvrtc()}};
    BuiltBundle built;
    const std::string path = folder + "/" + Bundle::file_name(build.arch);
    ok(build_bundle(catalogue(build.arch), build, path, built));
    return path;
  }

  const Driver* driver_ = nullptr;
  TemporaryFolder folder_;
  std::unique_ptr<BackendContext> context_;
  std::unique_ptr<ScopedContext> current_;
  Stream stream_ = nullptr;
  std::vector<DevicePtr> memory_;
  std::vector<u16_t> x_;
  int64_t n_ = 0;
  SelftestArgs args_;
};

TEST_F(OnDevice, CompilesAndLaunchesOnASideStream) {
  SKIP_WITHOUT_NVRTC();
  create(FOVEA_COMPILE_ALLOWED, folder_.path());
  for (const int64_t n : {1, 127, 128, 129, 100003}) {
    fill(n);
    std::vector<KernelUse> uses = {{request(128)}};
    ok(context_->load(uses, {}));
    ok(launch(cuda(*context_), uses[0], shape(128), args_, stream_));
    expect_result(128, 0.5f);
  }
  fovea_device_info info;
  context_->describe(info);
  EXPECT_EQ(info.kernels_loaded, 1);
  EXPECT_EQ(info.kernels_compiled, 1);
  EXPECT_GT(info.sm_count, 0);
  std::printf("%s, %s, driver %s, NVRTC %s\n%s", info.name, info.isa, info.driver, info.nvrtc,
              context_->list_kernels().c_str());
}

TEST_F(OnDevice, PlanLoadLaunchAndWaitFromABundle) {
  SKIP_WITHOUT_NVRTC();
  create(FOVEA_COMPILE_NEVER, "");
  const std::string bundle = make_bundle(folder_.path());
  create(FOVEA_COMPILE_NEVER, "", bundle);
  fill(100003);
  ok(driver_->call(api().stream_synchronize, stream_));
  const Clock::time_point start = Clock::now();
  std::vector<KernelUse> uses = {{request(256)}};
  ok(context_->load(uses, {}));
  ok(launch(cuda(*context_), uses[0], shape(256), args_, stream_));
  ok(driver_->call(api().stream_synchronize, stream_));
  const double first = milliseconds_since(start);
  const Clock::time_point again = Clock::now();
  ok(launch(cuda(*context_), uses[0], shape(256), args_, stream_));
  ok(driver_->call(api().stream_synchronize, stream_));
  std::printf("plan, load, launch and wait from a bundle: %.2f ms; launch and wait: %.3f ms\n", first,
              milliseconds_since(again));
  expect_result(256, 0.5f);
  EXPECT_EQ(static_cast<const Kernel*>(uses[0].loaded)->origin, Origin::bundle);
  EXPECT_LT(first, 50.0);
}

TEST_F(OnDevice, WithoutCodeItIsAnErrorThatNamesTheKernel) {
  create(FOVEA_COMPILE_NEVER, "");
  std::vector<KernelUse> uses = {{request(96)}};
  const Status status = context_->load(uses, {});
  EXPECT_EQ(status.code(), FOVEA_NOT_COMPILED);
  EXPECT_NE(status.message().find("selftest<block=96>"), std::string::npos) << status.message();
}

TEST_F(OnDevice, CodeThatTheDriverRefusesIsAnError) {
  create(FOVEA_COMPILE_NEVER, "");
  KernelSource source;
  ok(make_kernel_source(Sources::instance(), request(128), source));
  const std::string path = folder_.path("bad.bundle");
  write(path, bundle_bytes({.source_digest = Sources::instance().digest(), .arch = context_->caps.arch}, {12, 0},
                           {{source.key, std::string("\x7f"
                                                     "ELF") +
                                             std::string(4000, '\0')}}));
  create(FOVEA_COMPILE_NEVER, "", path);
  std::vector<KernelUse> uses = {{request(128)}};
  const Status status = context_->load(uses, {});
  EXPECT_EQ(status.code(), FOVEA_DEVICE);
  EXPECT_NE(status.message().find("cuModuleLoadData: CUDA_ERROR_"), std::string::npos) << status.message();
}

TEST_F(OnDevice, CapturedOnceAndReplayedWithOtherContents) {
  SKIP_WITHOUT_NVRTC();
  create(FOVEA_COMPILE_ALLOWED, folder_.path());
  fill(5000);
  std::vector<KernelUse> uses = {{request(128)}};
  ok(context_->load(uses, {}));
  // The very first launch of the kernel is inside a capture.
  Graph graph = nullptr;
  GraphExec exec = nullptr;
  ok(driver_->call(api().stream_begin_capture, stream_, capture_mode::global));
  ok(launch(cuda(*context_), uses[0], shape(128), args_, stream_));
  ok(driver_->call(api().stream_end_capture, stream_, &graph));
  ok(driver_->call(api().graph_instantiate, &exec, graph, 0ull));
  for (int round = 0; round < 3; ++round) {
    for (u16_t& x : x_) x = f32_to_bf16(bf16_to_f32(x) + 1);
    ok(driver_->call(api().memcpy_h2d_async, device(args_.x), static_cast<const void*>(x_.data()), x_.size() * 2,
                     stream_));
    poison();
    ok(driver_->call(api().graph_launch, exec, stream_));
    expect_result(128, 0.5f);
  }
  ok(driver_->call(api().graph_exec_destroy, exec));
  ok(driver_->call(api().graph_destroy, graph));
}

TEST_F(OnDevice, ACallThatWouldLoadDuringACaptureIsRefused) {
  SKIP_WITHOUT_NVRTC();
  create(FOVEA_COMPILE_ALLOWED, folder_.path());
  fill(1000);
  Graph graph = nullptr;
  std::vector<KernelUse> loaded = {{request(128)}}, missing = {{request(256)}};
  ok(context_->load(loaded, {}));
  ok(driver_->call(api().stream_begin_capture, stream_, capture_mode::global));
  EXPECT_TRUE(context_->load(loaded, {.stream = stream_}).ok());
  const Status status = context_->load(missing, {.stream = stream_});
  EXPECT_EQ(status.code(), FOVEA_INVALID_VALUE);
  EXPECT_TRUE(status.message().starts_with("exec.stream is capturing: kernel selftest<block=256>")) << status.message();
  // Planning on another path may load meanwhile, and the capture stays whole.
  ok(context_->load(missing, {}));
  ok(launch(cuda(*context_), loaded[0], shape(128), args_, stream_));
  ok(driver_->call(api().stream_end_capture, stream_, &graph));
  ASSERT_NE(graph, nullptr);
  ok(driver_->call(api().graph_destroy, graph));
}

TEST_F(OnDevice, EarlyLaunchesSeeWhatTheirPredecessorWrote) {
  SKIP_WITHOUT_NVRTC();
  create(FOVEA_COMPILE_ALLOWED, folder_.path());
  fill(1 << 20);
  std::vector<KernelUse> uses = {{request(128)}};
  ok(context_->load(uses, {}));
  LaunchShape early = shape(128);
  early.early = true;
  if (context_->caps.compute_capability < 90) {
    EXPECT_EQ(launch(cuda(*context_), uses[0], early, args_, stream_).code(), FOVEA_INTERNAL);
    return;
  }
  for (int i = 0; i < 20; ++i) {
    args_.scale = static_cast<float>(i);
    ok(launch(cuda(*context_), uses[0], early, args_, stream_));
  }
  expect_result(128, 19.0f);
}

TEST_F(OnDevice, ClustersAndShapesAreChecked) {
  SKIP_WITHOUT_NVRTC();
  create(FOVEA_COMPILE_ALLOWED, folder_.path());
  fill(128 * 8);
  std::vector<KernelUse> uses = {{request(128)}};
  ok(context_->load(uses, {}));
  LaunchShape wrong = shape(128);
  wrong.block.x = 129;  // the kernel was compiled for at most 128
  EXPECT_NE(launch(cuda(*context_), uses[0], wrong, args_, stream_).message().find("129 threads a block: at most 128"),
            std::string::npos);
  wrong = shape(128);
  wrong.smem_bytes = 1 << 20;
  EXPECT_NE(launch(cuda(*context_), uses[0], wrong, args_, stream_).message().find("bytes of dynamic shared memory"),
            std::string::npos);
  wrong = shape(128);
  wrong.grid.x = 0;  // no work
  EXPECT_TRUE(launch(cuda(*context_), uses[0], wrong, args_, stream_).ok());
  if (context_->caps.compute_capability >= 90) {
    LaunchShape cluster = shape(128);
    cluster.cluster.x = 4;
    cluster.smem_bytes = static_cast<unsigned>(static_cast<const Kernel*>(uses[0].loaded)->dynamic_smem);
    ok(launch(cuda(*context_), uses[0], cluster, args_, stream_));
    expect_result(128, 0.5f);
    cluster.cluster.x = 3;  // does not divide the grid
    const Status status = launch(cuda(*context_), uses[0], cluster, args_, stream_);
    EXPECT_EQ(status.code(), FOVEA_DEVICE);
    EXPECT_NE(status.message().find("launching selftest<block=128>: cuLaunchKernelEx: CUDA_ERROR_"), std::string::npos)
        << status.message();
  }
  int blocks = 0;
  ok(blocks_per_sm(cuda(*context_), uses[0], 128, 512, blocks));
  EXPECT_GT(blocks, 0);
}

TEST_F(OnDevice, ADeviceThatIsNotThereIsNamed) {
  std::unique_ptr<BackendContext> context;
  const Status status = CudaContext::create({.device_type = FOVEA_CUDA, .device_id = 1000}, context);
  EXPECT_EQ(status.code(), FOVEA_INVALID_VALUE);
  EXPECT_TRUE(status.message().starts_with("device_id is 1000: must be in [0, ")) << status.message();
}

// How long a launch takes on the host, with the context current and not.
TEST_F(OnDevice, LaunchOverhead) {
  SKIP_WITHOUT_NVRTC();
  create(FOVEA_COMPILE_ALLOWED, folder_.path());
  fill(128);
  std::vector<KernelUse> uses = {{request(128)}};
  ok(context_->load(uses, {}));
  constexpr int kLaunches = 1000;
  for (const bool is_current : {true, false}) {
    if (!is_current) current_.reset();
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < kLaunches; ++i) ok(launch(cuda(*context_), uses[0], shape(128), args_, stream_));
    const double microseconds = milliseconds_since(start) * 1000 / kLaunches;
    std::printf("one launch with the context %s: %.2f us\n", is_current ? "current" : "pushed", microseconds);
    EXPECT_LT(microseconds, 100.0);
  }
  current_ = std::make_unique<ScopedContext>(cuda(*context_).primary());
  expect_result(128, 0.5f);
}

}  // namespace
}  // namespace fovea::cuda
