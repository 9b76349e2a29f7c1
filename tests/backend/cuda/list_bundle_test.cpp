// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/list_bundle.h"

#include <gtest/gtest.h>

#include "backend/cuda/bundle.h"
#include "backend/cuda/cubin_file.h"
#include "backend/cuda/sources.h"
#include "backend/cuda/temporary.h"

namespace fovea::cuda {
namespace {

class ListBundle : public testing::Test {
 protected:
  Status list(const Hash128& digest, const std::vector<BundleKernel>& kernels) {
    const std::string path = folder_.path("b");
    write(path, bundle_bytes({digest, {90, 'a'}, 13}, {13, 0}, kernels));
    return list_bundle(path, text_);
  }
  TemporaryFolder folder_;
  std::string text_;
};

TEST_F(ListBundle, NamesEveryKernelAndWhatItNeeds) {
  const std::string cubin = cubin_file("run", {.registers = 40, .local_bytes = 8, .max_threads = 256});
  ASSERT_TRUE(list(Sources::instance().digest(), {{{1, 2}, cubin, "run<d=64, type=2>"}, {{1, 3}, cubin, "run"}}).ok());
  const std::string bytes = std::to_string(cubin.size());
  EXPECT_EQ(text_, "sm_90a, 2 kernels, NVRTC 13.0, of this library's sources\n" + hex({1, 2}) + " run<d=64, type=2> " +
                       bytes + " bytes, 40 registers, 8 local, 0 shared, 256 threads\n" + hex({1, 3}) + " run " +
                       bytes + " bytes, 40 registers, 8 local, 0 shared, 256 threads\n");
}

TEST_F(ListBundle, SaysWhatItIsFor) {
  ASSERT_TRUE(list({5, 5}, {}).ok());
  EXPECT_EQ(text_, "sm_90a, 0 kernels, NVRTC 13.0, of other kernel sources than this library's: it will not be used\n");
}

TEST_F(ListBundle, DamageIsAnError) {
  const Status status = list({5, 5}, {{{1, 2}, "no code", "run"}});
  EXPECT_EQ(status.code(), FOVEA_IO);
  EXPECT_EQ(status.message(), folder_.path("b") + ": the code of run is no cubin");
}

}  // namespace
}  // namespace fovea::cuda
