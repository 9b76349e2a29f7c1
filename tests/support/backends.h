// SPDX-License-Identifier: Apache-2.0
// Every backend and instruction set this machine can run, and calls with exact, poisoned workspaces.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fovea/fovea.hpp"
#include "support/device.h"
#include "support/device_call.h"
#include "support/guarded.h"

namespace fovea::test {

struct Backend {
  std::string name;  // "cpu AVX2", "cuda", "cuda sm80_decode"
  const Context& context;
  TestDevice* device = nullptr;       // memory is mirrored there; null: the host's is used
  const char* kernel = nullptr;       // attention's family that is forced
  bool cuda = false;                  // planning may refuse a call
  bool without_device = false;        // plans and compiles, and runs nothing
  const Context* compiler = nullptr;  // for a share of the kernels that `context` lacks
};

// One context per instruction set of the CPU in this binary. The first has two threads, the others one.
const std::vector<Backend>& backends();
Context cpu_context(int32_t threads, const char* isa = nullptr);

// Every backend that has the operation. Devices come first, so that the CPU's results are in memory at the end.
//   FOVEA_TEST_CUDA=0      leaves CUDA out;  =1 fails where there is no device
//   FOVEA_TEST_BUNDLE      a bundle of kernels, or a folder;  FOVEA_TEST_CACHE  the folder of compiled ones
//   FOVEA_TEST_ARCH=90a    instead of a device, only plans and compiles for this architecture
//   FOVEA_TEST_COMPILE=I/N there compiles every N-th kernel, from the I-th: N processes make all that the suite needs
//   FOVEA_TEST_MIRROR=1    also mirrors the memory of CPU calls, as it is done for a device
const std::vector<Backend>& backends(int32_t op);
bool serves(const Backend& backend, int32_t op);

// Of a call. `refused`: a CUDA backend has no kernel for it, says why, and the test goes on with the next backend.
struct Outcome : Result {
  bool refused = false;
};

// Runs, demands success, and goes on with the next backend of the loop where this one refuses the call.
#define RUN_OR_CONTINUE(call)                                             \
  if (const ::fovea::test::Outcome outcome_ = (call); outcome_.refused) { \
    continue;                                                             \
  } else                                                                  \
    ASSERT_TRUE(outcome_) << outcome_.message

// A plan, and runs of it in scratch of exactly the size asked for, between guard pages or poisoned zones and full of
// `scratch_fill`, with a zeroed sync that must be zero again afterwards. `exec` adds flags and the status word.
class TestPlan {
 public:
  TestPlan(const Backend& backend, int32_t op, const void* params);
  template <class Params>
  TestPlan(const Backend& backend, const Params& params)
      : TestPlan(backend, detail::op_of<Params>::value, static_cast<const void*>(&params)) {}

  const Outcome& outcome() const { return outcome_; }  // of planning
  WorkspaceBytes workspace() const { return bytes_; }
  std::string explain() const;
  // Runs with memory that is on the device already, and waits for nothing.
  fovea_status launch(const DeviceCall& call) const;

  using Change = std::function<void(Exec&)>;  // to what a wrong caller would give
  Outcome run_any(const void* params, const Exec& exec = {}, uint8_t scratch_fill = kPoison,
                  const Change& change = nullptr) const;
  template <class Params>
  Outcome run(const Params& params, const Exec& exec = {}, uint8_t scratch_fill = kPoison,
              const Change& change = nullptr) const {
    return run_any(&params, exec, scratch_fill, change);
  }

 private:
  const Backend& backend_;
  int32_t op_;
  std::unique_ptr<fovea_plan, decltype(&fovea_plan_destroy)> plan_;
  WorkspaceBytes bytes_;
  Outcome outcome_;
};

template <class Params>
Outcome run(const Backend& backend, const Params& params, const Exec& exec = {}, uint8_t scratch_fill = kPoison) {
  const TestPlan plan(backend, params);
  return plan.outcome() ? plan.run(params, exec, scratch_fill) : plan.outcome();
}
// On a CPU context that is in no list.
template <class Params>
Result run(const Context& context, const Params& params, const Exec& exec = {}, uint8_t scratch_fill = kPoison) {
  return run(Backend{.name = "cpu", .context = context}, params, exec, scratch_fill);
}

// As Context::supports, of parameters whose tensors are said to lie where the backend's do.
Support supports_any(const Backend& backend, int32_t op, const void* params);
template <class Params>
Support supports(const Backend& backend, const Params& params) {
  return supports_any(backend, detail::op_of<Params>::value, &params);
}

// Plans and runs in one call of the library, in a workspace of the given size.
Outcome call_any(const Backend& backend, int32_t op, const void* params, WorkspaceBytes bytes);
template <class Params>
Outcome call(const Backend& backend, const Params& params, WorkspaceBytes bytes) {
  return call_any(backend, detail::op_of<Params>::value, &params, bytes);
}

}  // namespace fovea::test
