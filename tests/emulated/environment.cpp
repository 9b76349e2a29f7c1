// SPDX-License-Identifier: Apache-2.0
// The conformance cases of operations with device kernels (CMake adds their sources), on the kernels' own code: in this
// program every context of the suite has them emulated.
#include "emulated/backend.h"
#include "support/backends.h"

namespace fovea::test {
namespace {

class Emulation : public ::testing::Environment {
 public:
  void SetUp() override {
    for (const Backend& backend : backends()) emulated::replace_operations(backend.context.get());
  }
};
const auto* const registered = ::testing::AddGlobalTestEnvironment(new Emulation);

}  // namespace
}  // namespace fovea::test
