// SPDX-License-Identifier: Apache-2.0
#include "cuda/late_producer.h"

#include <gtest/gtest.h>

#include "backend/cuda/kernel_source.h"
#include "cuda/instructions.h"

namespace fovea::test {

namespace {

class Producer final : public LateProducer {
 public:
  Status open() {
    const fovea_context_params params{
        .device_type = FOVEA_CUDA, .compile = FOVEA_COMPILE_ALLOWED, .bundle = "", .cache_dir = ""};
    FOVEA_TRY(cuda::CudaContext::create(params, context_));
    if (context_->caps.compute_capability < 90) return unsupported("early launches need compute capability 9.0");
    kernel_.request = cuda::instruction_request("slow_copy", "slow_copy", {}, context_->caps.arch);
    cuda::KernelSource source;
    FOVEA_TRY(cuda::make_kernel_source(cuda::test_sources(), kernel_.request, source));
    const cuda::Kernel* kernel = nullptr;
    FOVEA_TRY(cuda::cuda(*context_).kernel(kernel_.request, source, {}, kernel));
    kernel_.loaded = kernel;
    return {};
  }
  void run(const Mirror::LateCopy& copy, void* stream) const override {
    const cuda_test::BytesArgs args = {.in = reinterpret_cast<const u8_t*>(copy.from),
                                       .out = reinterpret_cast<u8_t*>(copy.to),
                                       .n = static_cast<i64_t>(copy.bytes)};
    const Status status = cuda::launch(cuda::cuda(*context_), kernel_, {.grid = {64}, .block = {256}}, args, stream);
    EXPECT_TRUE(status.ok()) << status.message();
  }

 private:
  std::unique_ptr<BackendContext> context_;
  KernelUse kernel_;
};

}  // namespace

const LateProducer* LateProducer::instance() {
  static const LateProducer* const one = []() -> const LateProducer* {
    auto made = std::make_unique<Producer>();
    const Status status = made->open();
    if (!status.ok()) std::printf("no early launches: %s\n", status.message().c_str());
    return status.ok() ? made.release() : nullptr;  // never destroyed: the driver shuts down by itself, perhaps first
  }();
  return one;
}

}  // namespace fovea::test
