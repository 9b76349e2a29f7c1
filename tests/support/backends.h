// SPDX-License-Identifier: Apache-2.0
// Every backend and instruction set this machine can run, and calls with exact, poisoned workspaces.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fovea/fovea.hpp"
#include "support/guarded.h"

namespace fovea::test {

struct Backend {
  std::string name;  // "cpu AVX2"
  Context context;
};

// One context per instruction set of the CPU in this binary. The first has two threads, the others one.
const std::vector<Backend>& backends();
Context cpu_context(int32_t threads, const char* isa = nullptr);

// Plans, then runs in scratch of exactly the size asked for, between guard pages and full of `scratch_fill`, with a
// zeroed sync that must be zero again afterwards. `exec` adds flags and the status word.
template <class Params>
Result run(const Context& context, const Params& params, Exec exec = {}, uint8_t scratch_fill = kPoison) {
  fovea_plan* raw = nullptr;
  constexpr int32_t op = detail::op_of<Params>::value;
  if (const fovea_status code = fovea_plan_create(context.get(), op, &params, &raw); code != FOVEA_OK) {
    return detail::result(code);
  }
  const std::unique_ptr<fovea_plan, decltype(&fovea_plan_destroy)> plan(raw, fovea_plan_destroy);
  EXPECT_EQ(fovea_plan_workspace(raw, &exec.scratch_bytes, &exec.sync_bytes), FOVEA_OK);
  const Guarded scratch(exec.scratch_bytes, Place::end, scratch_fill);  // of any alignment
  const Guarded sync((exec.sync_bytes + 7) / 8 * 8, Place::end, 0);
  exec.scratch = scratch.data();
  exec.sync = sync.data();
  const Result result = detail::result(fovea_plan_run(raw, &params, &exec));
  EXPECT_TRUE(sync.all(0)) << "sync is not left zero";
  return result;
}

}  // namespace fovea::test
