// SPDX-License-Identifier: Apache-2.0
#include "cuda/instructions.h"

#include <algorithm>
#include <exception>
#include <stdexcept>

#include "backend/cuda/temporary.h"

namespace fovea::cuda {

// Written by cmake/embed.cmake from tests/cuda/kernels.
extern const EmbeddedFile kTestFiles[];
extern const int kTestFileCount;

const Sources& test_sources() {
  static const Sources sources = [] {
    std::vector<EmbeddedFile> files(kEmbeddedFiles, kEmbeddedFiles + kEmbeddedFileCount);
    files.insert(files.end(), kTestFiles, kTestFiles + kTestFileCount);
    std::sort(files.begin(), files.end(),
              [](const EmbeddedFile& a, const EmbeddedFile& b) { return std::string_view(a.name) < b.name; });
    return Sources(files.data(), static_cast<int>(files.size()));
  }();
  return sources;
}

const std::vector<InstructionFile>& instruction_files() {
  static const std::vector<InstructionFile> files = {
      {"mma_sm70", {"mma_m8n8k4_f16", "mma_m8n8k4_f16_row"}, 70},
      {"mma_sm75", {"mma_m16n8k8_f16"}, 75},
      {"mma_sm80",
       {"mma_m16n8k8_bf16", "mma_m16n8k16_f16", "mma_m16n8k16_bf16", "mma_m16n8k32_s8_s8", "mma_m16n8k32_u8_s8",
        "mma_m16n8k32_s8_u8", "mma_m16n8k32_u8_u8"},
       80},
      {"mma_sm89", {"mma_m16n8k32_e4m3", "mma_m16n8k32_e5m2"}, 89},
      {"ldmatrix", {"ldmatrix"}, 75},
      {"stmatrix", {"stmatrix"}, 90},
      {"copy_async", {"copy_async"}, 80},
      {"mbarrier", {"mbarrier_phases", "mbarrier_after_copies"}, 80},
      {"bulk", {"bulk_copy", "tensor_load", "tensor_store"}, 90, {{"rank", 2}}},
      {"bulk", {"tensor_load", "tensor_store"}, 90, {{"rank", 3}}},
      {"bulk", {"tensor_load", "tensor_store"}, 90, {{"rank", 4}}},
      {"bulk", {"tensor_load", "tensor_store"}, 90, {{"rank", 5}}},
      {"atomic", {"last_block_sums"}, 70},
      {"registers", {"registers"}, 90},
      {"cluster", {"cluster"}, 90},
      {"dependent", {"dependent"}, 90},
      {"slow_copy", {"slow_copy"}, 90},
      {"convert", {"f16_of_f32", "f32_of_f16", "exp2_approx", "log2_approx", "rcp_approx"}, 70},
      {"convert_sm75", {"tanh_approx"}, 75},
      {"convert_sm80", {"pack_f16", "pack_bf16", "bf16x2_of_e4m3x2"}, 80},
      {"convert_fp8", {"f16x2_of_e4m3x2_by_integers", "e4m3x2_of_f16x2_by_integers", "e4m3_of_f32_shared"}, 70},
      {"convert_sm89", {"e4m3x2_of_f16x2", "e4m3x2_of_f32", "f16x2_of_e4m3x2", "f16x2_of_e5m2x2", "widen_bf16"}, 89},
  };
  return files;
}

std::vector<WgmmaForm> wgmma_forms() {
  std::vector<WgmmaForm> forms;
  for (const int n : {8, 16, 32, 64, 96, 128, 192, 256}) {
    // Q K^T, P V and their like in fp8.
    for (const int type : {1, 2}) {
      forms.push_back({n, type, false, false, false});
      forms.push_back({n, type, true, false, type == 1});
    }
    if (n != 64) continue;
    for (const int type : {0, 1}) {
      for (const bool tb : {false, true}) {
        forms.push_back({n, type, true, false, tb});
        for (const bool ta : {false, true}) forms.push_back({n, type, false, ta, tb});
      }
    }
  }
  return forms;
}

KernelRequest instruction_request(const char* file, const char* entry, const std::vector<KernelConstant>& constants,
                                  const CudaArch& arch) {
  // A request holds views; the table of names lives as long as the program.
  static std::vector<std::unique_ptr<std::string>> names;
  const std::string name = "cuda/kernels/" + std::string(file) + ".cuh";
  auto found = std::find_if(names.begin(), names.end(), [&](const auto& one) { return *one == name; });
  if (found == names.end()) found = names.insert(names.end(), std::make_unique<std::string>(name));
  return {.file = **found, .entry = entry, .constants = constants, .arch = arch};
}

namespace {

void require_ok(const Status& status, const std::string& what) {
  if (!status.ok()) throw std::runtime_error(what + ": " + status.message());
}

}  // namespace

Buffer::Buffer(const Driver& driver, const void* data, size_t bytes) : driver_(driver) {
  Status status = driver.call(driver.api().mem_alloc, &address_, std::max<size_t>(bytes, 16));
  if (status.ok()) status = driver.call(driver.api().memcpy_h2d_async, address_, data, bytes, Stream{});
  if (status.ok()) status = driver.call(driver.api().stream_synchronize, Stream{});
  require_ok(status, "memory of " + std::to_string(bytes) + " bytes");
}

Buffer::~Buffer() {
  const Status status = driver_.call(driver_.api().mem_free, address_);
  const bool silent = std::uncaught_exceptions() > 0;
  EXPECT_TRUE(status.ok() || silent) << status.message();
}

void Buffer::read(void* data, size_t bytes) const {
  Status status = driver_.call(driver_.api().memcpy_d2h_async, data, address_, bytes, Stream{});
  if (status.ok()) status = driver_.call(driver_.api().stream_synchronize, Stream{});
  require_ok(status, "reading " + std::to_string(bytes) + " bytes");
}

std::unique_ptr<BackendContext> OnCard::context_;

void OnCard::SetUp() {
  const Driver* driver = nullptr;
  const Status found = Driver::instance(driver);
  if (!found.ok()) GTEST_SKIP() << found.message();
  SKIP_WITHOUT_NVRTC();
  if (context_ == nullptr) {
    const fovea_context_params params{
        .device_type = FOVEA_CUDA, .compile = FOVEA_COMPILE_ALLOWED, .bundle = "", .cache_dir = ""};
    const Status made = CudaContext::create(params, context_);
    ASSERT_TRUE(made.ok()) << made.message();
  }
  current_ = std::make_unique<ScopedContext>(cuda(*context_).primary());
  ASSERT_TRUE(current_->status().ok()) << current_->status().message();
}

void OnCard::TearDown() {
  current_.reset();
}

KernelUse OnCard::load(const char* file, const char* entry, const std::vector<KernelConstant>& constants) {
  KernelUse use{.request = instruction_request(file, entry, constants, context_->caps.arch)};
  KernelSource source;
  Status status = make_kernel_source(test_sources(), use.request, source);
  const Kernel* kernel = nullptr;
  if (status.ok()) status = cuda(*context_).kernel(use.request, source, {}, kernel);
  require(status);
  use.loaded = kernel;
  return use;
}

void OnCard::wait(const KernelUse& use, const std::string& input) {
  require_ok(driver().call(driver().api().stream_synchronize, Stream{}),
             fovea::name(use.request) + (input.empty() ? "" : " " + input));
}

void OnCard::require(const Status& status) {
  require_ok(status, "a kernel could not be run");
}

}  // namespace fovea::cuda
