// SPDX-License-Identifier: Apache-2.0
// The kernels of tests/cuda/kernels: the table of what is compiled for which architecture, and a fixture that runs
// them.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/launch.h"
#include "cuda/kernels/args.h"

namespace fovea::cuda {

// The library's sources and those of the tests.
const Sources& test_sources();

// One file of kernels, each entry for one instruction or family.
struct InstructionFile {
  const char* name;  // below tests/cuda/kernels, without .cuh
  std::vector<const char*> entries;
  int oldest;  // 10 * major + minor of the first architecture that has the instructions; all later ones have them
  std::vector<KernelConstant> constants = {};
};
const std::vector<InstructionFile>& instruction_files();

// kernels/wgmma.cuh, which exists for sm_90a alone.
struct WgmmaForm {
  int n, type;  // type: 0 f16, 1 bf16, 2 e4m3
  bool registers, ta, tb;
  std::vector<KernelConstant> constants() const {
    return {{"n", n}, {"type", type}, {"registers", registers}, {"ta", ta}, {"tb", tb}};
  }
};
std::vector<WgmmaForm> wgmma_forms();

KernelRequest instruction_request(const char* file, const char* entry, const std::vector<KernelConstant>& constants,
                                  const CudaArch& arch);

// Memory of a device with what the host put there.
class Buffer {
 public:
  Buffer(const Driver& driver, const void* data, size_t bytes);
  ~Buffer();  // a test that ends by an exception has said all there is to say
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(address_);
  }
  void read(void* data, size_t bytes) const;

 private:
  const Driver& driver_;
  DevicePtr address_ = 0;
};

// Skipped where there is no device, no compiler, or a device without the instructions. An error of the driver ends the
// test by an exception, which names the kernel: what follows would only be its consequences.
class OnCard : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
  // Ends the test as skipped where the device is older, or is not of that capability.
  bool has(int oldest) const { return context_->caps.compute_capability >= oldest; }

  KernelUse load(const char* file, const char* entry, const std::vector<KernelConstant>& constants = {});
  template <class Args>
  void start(const KernelUse& use, const LaunchShape& shape, const Args& args) {
    require(launch(cuda(*context_), use, shape, args, nullptr));
  }
  // For all that was started; an error is said to be that kernel's, on what `input` says.
  void wait(const KernelUse& use, const std::string& input = "");
  template <class Args>
  void run(const KernelUse& use, const LaunchShape& shape, const Args& args, const std::string& input = "") {
    start(use, shape, args);
    wait(use, input);
  }

  template <class T>
  std::unique_ptr<Buffer> upload(const std::vector<T>& data) {
    return std::make_unique<Buffer>(driver(), data.data(), data.size() * sizeof(T));
  }
  template <class T>
  std::vector<T> download(const Buffer& buffer, size_t count) {
    std::vector<T> data(count);
    buffer.read(data.data(), count * sizeof(T));
    return data;
  }
  const Driver& driver() const { return cuda(*context_).driver(); }
  static void require(const Status& status);

  static std::unique_ptr<BackendContext> context_;  // of all tests of the process
  std::unique_ptr<ScopedContext> current_;
};

}  // namespace fovea::cuda

#define SKIP_BELOW(capability) \
  if (!has(capability)) GTEST_SKIP() << "needs compute capability " << (capability) / 10 << "." << (capability) % 10
