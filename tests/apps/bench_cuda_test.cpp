// SPDX-License-Identifier: Apache-2.0
// Benchmarks of a CUDA device, on a driver whose device is this process.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/run_command.h"
#include "bench/cuda_measure.h"
#include "bench/data.h"

namespace fovea::bench {
namespace {

using app::Outcome;

// Notes which sets it was asked for, and launches nothing.
class NotingCase final : public Case {
 public:
  explicit NotingCase(uint64_t sets) { sets_ = sets; }
  void run(uint64_t set) override { taken.push_back(set); }
  std::string explain() const override { return ""; }
  void check() const override { ++checks; }
  std::vector<uint64_t> taken;
  mutable int checks = 0;
};

class BenchCuda : public testing::Test {
 protected:
  void SetUp() override {
    // Once it is loaded, the name libcuda.so.1 is found to be this one.
    ASSERT_NE(dlopen(FOVEA_FAKE_CUDA, RTLD_NOW), nullptr) << dlerror();
    device = std::make_unique<CudaDevice>(0);
  }
  std::unique_ptr<CudaDevice> device;
};

TEST_F(BenchCuda, TakesTheSetsInTurn) {
  NotingCase c(5);
  const Timing timing = measure_on(*device, c, 3, 0);
  EXPECT_EQ(timing.samples, 3);
  EXPECT_GE(timing.calls, 1);
  EXPECT_GT(timing.median, 0);
  EXPECT_LE(timing.min, timing.median);
  EXPECT_EQ(c.checks, 1) << "faults of the data must be looked for";
  ASSERT_GE(c.taken.size(), 6u);
  EXPECT_EQ(c.taken[0], 0u);  // before anything is captured
  for (size_t i = 1; i < c.taken.size(); ++i) ASSERT_EQ(c.taken[i], (i - 1) % 5) << i;
}

TEST_F(BenchCuda, GraphsTogetherTakeEverySet) {
  NotingCase c(7);
  const Timing timing = measure_on(*device, c, 3, 3);
  EXPECT_EQ(timing.calls % 3, 0) << "time is that of a call, not of a graph";
  EXPECT_EQ(c.taken, (std::vector<uint64_t>{0, 0, 1, 2, 3, 4, 5, 6, 0, 1})) << "one call, then three graphs of three";
}

TEST_F(BenchCuda, AFailedCaptureIsEnded) {
  EXPECT_THROW(device->capture([] { throw std::runtime_error("x"); }), std::runtime_error);
  device->wait();  // refused by the driver while a capture goes on
}

TEST_F(BenchCuda, OperandsAreThoseOfTheHost) {
  Data here(Data::kFilled, 5), there(Data::kFilled, 5, *device);
  for (int i = 0; i < 2; ++i) {
    const Tensor a = here.random(FOVEA_BF16, {100, 3}), b = there.random(FOVEA_BF16, {100, 3});
    EXPECT_EQ(b.device_type, FOVEA_CUDA);
    EXPECT_EQ(std::memcmp(a.data, b.data, 600), 0);
    const Tensor c = here.permutation(9, 9), d = there.permutation(9, 9);
    EXPECT_EQ(std::memcmp(c.data, d.data, 81 * 4), 0);
  }
  EXPECT_EQ(here.bytes(), there.bytes());
}

TEST_F(BenchCuda, LargeTensorsRepeatARandomBlock) {
  constexpr int64_t kBlock = 64 << 20, kMore = 4096;
  Data data(Data::kFilled, 5, *device);
  const Tensor t = data.random(FOVEA_E4M3, {kBlock + kMore});
  const auto* bytes = static_cast<const char*>(t.data);
  EXPECT_EQ(std::memcmp(bytes, bytes + kBlock, kMore), 0);
  EXPECT_NE(std::memcmp(bytes, bytes + kBlock / 2, kMore), 0);
}

TEST_F(BenchCuda, TheRoofSaysWhatIsMissing) {
  const Roof roof = measure_cuda_roof(*device, "");
  EXPECT_GT(roof.copy_bytes_per_s, 0);
  EXPECT_EQ(roof.copy_text, "cuMemcpyDtoD of 128 MiB");
  EXPECT_EQ(roof.flops_per_s, 0);
  EXPECT_NE(roof.flops_text.find("cublasLt"), std::string::npos) << roof.flops_text;
}

TEST_F(BenchCuda, ErrorsNameTheCall) {
  try {
    const CudaDevice second(1);
    FAIL();
  } catch (const std::exception& e) {
    EXPECT_STREQ(e.what(), "cuDeviceGet: CUDA_ERROR_INVALID_VALUE (an error of the fake driver)");
  }
}

// `fovea bench` with the fake driver; `report` receives what the driver counted.
Outcome bench_on_fake(std::vector<std::string> arguments, nlohmann::json* report = nullptr) {
  const std::filesystem::path fake = FOVEA_FAKE_CUDA;
  const std::string file = testing::TempDir() + "fovea_fake_cuda_" + std::to_string(::getpid());
  const char* path = std::getenv("LD_LIBRARY_PATH");
  const std::string search = fake.parent_path().string() + (path ? std::string(":") + path : "");
  arguments.insert(arguments.begin(), "bench");
  const std::string cache = file + "_cache";
  const Outcome r = app::fovea(arguments, SIZE_MAX,
                               {{"LD_LIBRARY_PATH", search}, {"FAKE_CUDA_REPORT", file}, {"XDG_CACHE_HOME", cache}});
  std::filesystem::remove_all(cache);
  if (report != nullptr) *report = nlohmann::json::parse(std::ifstream(file));
  std::filesystem::remove(file);
  return r;
}

TEST(BenchCudaCommand, WithoutADriverSaysSo) {
  if (app::fovea({"info"}).out.find("cuda:0") != std::string::npos) GTEST_SKIP() << "this machine has a device";
  app::expect_fault({"bench", "attention", "--device", "cuda"}, "CUDA driver");
}

TEST(BenchCudaCommand, RefusesWhatIsForOneDeviceOnly) {
  app::expect_fault({"bench", "norm", "--graph", "3"}, "--graph is 3: only CUDA replays graphs");
  app::expect_fault({"bench", "norm", "--early"}, "--early: only CUDA has early launches");
  app::expect_fault({"bench", "norm", "--cublaslt", "x"}, "--cublaslt is x: only CUDA has it");
  app::expect_fault({"bench", "norm", "--bundle", "x"}, "--bundle is for CUDA: --device is cpu");
  app::expect_fault({"bench", "norm", "--compile", "never"}, "--compile is for CUDA: --device is cpu");
  app::expect_fault({"bench", "attention", "--kernel", "no_such"}, "no_such");
  const Outcome r = bench_on_fake({"merge_states", "--device", "cuda", "--compile", "soon"});
  EXPECT_EQ(r.err, "fovea: --compile is 'soon': must be never, allowed or warm\n");
}

TEST(BenchCudaCommand, GoesTheWholeWay) {
  const std::vector<std::string> line = {"merge_states", "--device",  "cuda", "--type",
                                         "bf16",         "--samples", "3",    "--json"};
  nlohmann::json counted;
  const Outcome r = bench_on_fake(line, &counted);
  for (const char* missing : {"no such operation", "no kernel for this device", "NVRTC"}) {
    if (r.err.find(missing) != std::string::npos) GTEST_SKIP() << r.err;
  }
  ASSERT_EQ(r.code, 0) << r.err;
  const nlohmann::json json = nlohmann::json::parse(r.out);
  EXPECT_EQ(json["machine"], "Fake H200");
  EXPECT_EQ(json["graph_calls"], 0);
  EXPECT_GT(json["start_seconds"]["plan"], 0);
  EXPECT_GT(json["start_seconds"]["first_call"], 0);
  const double median = json["seconds"]["median"], copy = json["roof"]["copy_gb_per_s"];
  EXPECT_NEAR(json["roof"]["percent_of_copy"], 100 * json["work"]["bytes"].get<double>() / median / (copy * 1e9), 1e-6);
  EXPECT_EQ(json["roof"]["percent_of_bf16"], nullptr);
  EXPECT_NE(json["device"]["kernels"].get<std::string>().find("merge_states"), std::string::npos);
  EXPECT_EQ(counted["alive"], 0) << "handles and memory are given back";
  EXPECT_GT(counted["launches"], 3);
  EXPECT_EQ(counted["captured"], 0);

  std::vector<std::string> graph = line;
  graph.insert(graph.end(), {"--graph", "20"});
  const nlohmann::json replayed = nlohmann::json::parse(bench_on_fake(graph, &counted).out);
  EXPECT_EQ(replayed["graph_calls"], 20);
  EXPECT_EQ(counted["alive"], 0);
  EXPECT_EQ(counted["captured"].get<int64_t>() % 20, 0);
  EXPECT_GT(counted["replays"], 3);
}

}  // namespace
}  // namespace fovea::bench
