// SPDX-License-Identifier: Apache-2.0
// Calls whose memory stays on the device, one for each kernel family, to be launched many times, alone or in graphs.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "support/backends.h"
#include "support/device_call.h"

namespace fovea::test {

// Skipped where there is no card. FOVEA_TEST_MIRROR=1 tries the tests themselves on the CPU, with launches as graphs.
class OnDevices : public testing::Test {
 protected:
  void SetUp() override {
    for (const Backend& backend : backends(FOVEA_OP_MERGE_STATES)) {
      if (backend.device != nullptr) return;
    }
    GTEST_SKIP() << "no device";
  }
};

// A plan, its call on the device and, where captured, a graph of it.
struct ResidentCall {
  const Backend& backend;
  TestPlan plan;
  std::unique_ptr<DeviceCall> call;
  int graph = -1;
  int early_graph = -1;  // a late producer, and the call launched early behind it
  TestDevice& device() const { return *backend.device; }
};
using ResidentCalls = std::vector<std::unique_ptr<ResidentCall>>;

// One for each family that takes the call; the refusals of the others are printed.
template <class Params>
ResidentCalls resident_calls(const Params& params, const Exec& exec = {}) {
  constexpr int32_t op = detail::op_of<Params>::value;
  ResidentCalls calls;
  for (const Backend& backend : backends(op)) {
    if (backend.device == nullptr) continue;
    TestPlan plan(backend, params);
    if (!plan.outcome()) {
      EXPECT_TRUE(plan.outcome().refused) << plan.outcome().message;
      std::printf("%s: %s\n", backend.name.c_str(), plan.outcome().message.c_str());
      continue;
    }
    auto call =
        std::make_unique<DeviceCall>(*backend.device, op, &params, plan.workspace(), exec, kPoison, backend.kernel);
    EXPECT_EQ(call->mistake(), "");
    EXPECT_TRUE(call->enough_memory());
    if (!call->enough_memory()) continue;
    calls.push_back(std::make_unique<ResidentCall>(ResidentCall{backend, std::move(plan), std::move(call)}));
  }
  return calls;
}

inline void expect_clean(ResidentCall& one) {
  for (const std::string& fault : one.call->download()) ADD_FAILURE() << one.backend.name << ": " << fault;
}

}  // namespace fovea::test
