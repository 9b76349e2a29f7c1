// SPDX-License-Identifier: Apache-2.0
// What holds for every operation alike: planning, running, workspaces, errors, versions of structs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>

#include "api/cases.h"
#include "support/backends.h"

namespace {

using namespace fovea::test;
using fovea::Context;
using fovea::Exec;

struct DestroyPlan {
  void operator()(fovea_plan* p) const { fovea_plan_destroy(p); }
};
using PlanPtr = std::unique_ptr<fovea_plan, DestroyPlan>;

PlanPtr plan_of(const Context& context, const OpCase& c) {
  fovea_plan* raw = nullptr;
  EXPECT_EQ(fovea_plan_create(context.get(), c.op(), c.params(), &raw), FOVEA_OK)
      << c.operation().name << ": " << fovea_last_error();
  return PlanPtr(raw);
}

// Workspace of exactly the size a plan asks for.
struct Workspace {
  explicit Workspace(const fovea_plan* plan, uint8_t fill = kPoison) {
    EXPECT_EQ(fovea_plan_workspace(plan, &exec.scratch_bytes, &exec.sync_bytes), FOVEA_OK);
    scratch = Guarded(exec.scratch_bytes, Place::end, fill);
    sync = Guarded((exec.sync_bytes + 7) / 8 * 8, Place::end, 0);
    exec.scratch = scratch.data();
    exec.sync = sync.data();
  }
  Exec exec;
  Guarded scratch, sync;
};

std::vector<std::byte> run_case(const Context& context, const OpCase& c, uint8_t fill = kPoison) {
  const PlanPtr plan = plan_of(context, c);
  const Workspace workspace(plan.get(), fill);
  EXPECT_EQ(fovea_plan_run(plan.get(), c.params(), &workspace.exec), FOVEA_OK)
      << c.operation().name << ": " << fovea_last_error();
  EXPECT_TRUE(workspace.sync.all(0)) << c.operation().name;
  return c.outputs();
}

class EveryOp : public ::testing::TestWithParam<int> {
 protected:
  const c_operation& row() const { return c_operations[GetParam()]; }
  OpCase fresh() const { return OpCase(row()); }
  Context context_{{.threads = 2}};
};

INSTANTIATE_TEST_SUITE_P(Api, EveryOp, ::testing::Range(0, c_operation_count),
                         [](const auto& p) { return std::string(c_operations[p.param].name); });

TEST_P(EveryOp, RunsAsPlanAndAsCallOnEveryInstructionSet) {
  for (const Backend& b : backends()) {
    SCOPED_TRACE(b.name);
    const OpCase planned = fresh(), called = fresh();
    ASSERT_EQ(fovea_supports(b.context.get(), row().op, planned.params()), FOVEA_SUPPORT_YES) << fovea_last_error();
    const std::vector<std::byte> want = run_case(b.context, planned);
    EXPECT_NE(want, fresh().outputs()) << "nothing was written";
    const PlanPtr plan = plan_of(b.context, called);
    const Workspace workspace(plan.get());
    ASSERT_EQ(row().call(b.context.get(), called.params(), &workspace.exec), FOVEA_OK) << fovea_last_error();
    EXPECT_EQ(called.outputs(), want);
    EXPECT_STREQ(fovea_last_error(), "") << "a call that succeeds leaves no message";
  }
}

TEST_P(EveryOp, ResultsDoNotDependOnScratchThreadsOrRepetition) {
  const std::vector<std::byte> want = run_case(context_, fresh());
  EXPECT_EQ(run_case(context_, fresh(), 0x00), want);
  EXPECT_EQ(run_case(context_, fresh(), 0x7F), want);
  for (const int32_t threads : {1, 3, 7}) EXPECT_EQ(run_case(Context({.threads = threads}), fresh()), want) << threads;
}

// B12 and planning alone: no memory is needed.
TEST_P(EveryOp, PlanningNeedsNoMemoryAndRunningDoes) {
  OpCase c = fresh();
  // Null every data pointer of the struct: its views are where a dtype of this library follows a pointer of the case.
  const PlanPtr plan = plan_of(context_, c);
  const Workspace workspace(plan.get());
  auto* bytes = static_cast<std::byte*>(c.params());
  int nulled = 0;
  for (size_t at = 8; at + sizeof(fovea_tensor) <= row().size; at += 8) {
    fovea_tensor t;
    std::memcpy(&t, bytes + at, sizeof t);
    const bool is_view = t.data != nullptr && t.dtype > 0 && t.dtype <= FOVEA_U64 && t.rank > 0 &&
                         t.rank <= FOVEA_MAX_RANK && t.device_type == FOVEA_CPU && t.device_id == 0;
    if (!is_view) continue;
    void* data = nullptr;
    std::memcpy(bytes + at, &data, sizeof data);
    ++nulled;
    EXPECT_EQ(fovea_supports(context_.get(), row().op, c.params()), FOVEA_SUPPORT_YES) << fovea_last_error();
    EXPECT_EQ(fovea_plan_run(plan.get(), c.params(), &workspace.exec), FOVEA_INVALID_VALUE);
    EXPECT_NE(std::string(fovea_last_error()).find(".data is null: a call needs its memory"), std::string::npos)
        << fovea_last_error();
    std::memcpy(bytes + at, &t.data, sizeof data);
  }
  EXPECT_GT(nulled, 0);
}

// Absent is what has no type: nothing else of such a tensor counts.
TEST_P(EveryOp, AbsentTensorsMayHoldAnythingElse) {
  const std::vector<std::byte> want = run_case(context_, fresh());
  OpCase c = fresh();
  const fovea_tensor absent;
  fovea_tensor garbage;
  garbage.rank = 100;
  garbage.device_type = 77;
  garbage.device_id = -1;
  std::fill(std::begin(garbage.shape), std::end(garbage.shape), INT64_MAX);
  std::fill(std::begin(garbage.stride), std::end(garbage.stride), INT64_MIN);
  for (HostStruct& s : c.structs()) {
    for (size_t at = 0; at + sizeof absent <= s.size; at += 8) {
      if (std::memcmp(s.memory.get() + at, &absent, sizeof absent) != 0) continue;
      std::memcpy(s.memory.get() + at, &garbage, sizeof garbage);
      at += sizeof garbage - 8;
    }
  }
  EXPECT_EQ(run_case(context_, c), want);
}

TEST_P(EveryOp, StructSize) {
  const OpCase c = fresh();
  const auto exact = static_cast<uint32_t>(row().size);
  ASSERT_EQ(c.struct_size(), exact);
  const auto answer = [&](uint32_t size) {
    c.struct_size() = size;
    return fovea_supports(context_.get(), row().op, c.params());
  };
  for (const uint32_t small : {0u, 4u, exact - 8}) {
    EXPECT_EQ(answer(small), FOVEA_SUPPORT_NO);
    EXPECT_EQ(std::string(fovea_last_error()), "params.struct_size is " + std::to_string(small) +
                                                   ": must be at least " + std::to_string(exact) +
                                                   " (initialise the struct)");
  }
  EXPECT_EQ(answer(exact), FOVEA_SUPPORT_YES);
  EXPECT_EQ(answer(exact + 64), FOVEA_SUPPORT_YES) << "a longer struct whose tail is zero";
  EXPECT_EQ(answer(1 << 16), FOVEA_SUPPORT_YES);
  for (const uint32_t absurd : {(1u << 16) + 1, UINT32_MAX}) {
    EXPECT_EQ(answer(absurd), FOVEA_SUPPORT_NO);
    EXPECT_EQ(std::string(fovea_last_error()),
              "params.struct_size is " + std::to_string(absurd) + ": must be at most 65536");
  }
  static_cast<std::byte*>(c.params())[exact + 63] = std::byte{1};
  EXPECT_EQ(answer(exact + 64), FOVEA_SUPPORT_NO);
  EXPECT_EQ(std::string(fovea_last_error()),
            "params.struct_size is " + std::to_string(exact + 64) + ": a field that this version does not know is set");
  EXPECT_EQ(answer(exact + 63), FOVEA_SUPPORT_YES) << "what is beyond struct_size is nobody's";
  EXPECT_EQ(answer(exact), FOVEA_SUPPORT_YES);
}

TEST_P(EveryOp, WorkspaceAndExecErrors) {
  const OpCase c = fresh();
  const PlanPtr plan = plan_of(context_, c);
  const Workspace workspace(plan.get());
  const std::vector<std::byte> before = c.outputs();
  const auto message = [&](auto&& change) {
    Exec exec = workspace.exec;
    change(exec);
    EXPECT_EQ(fovea_plan_run(plan.get(), c.params(), &exec), FOVEA_INVALID_VALUE);
    return std::string(fovea_last_error());
  };
  for (const uint32_t flags : {3u, 4u, 6u}) {
    EXPECT_EQ(message([&](Exec& e) { e.flags = flags; }),
              "exec.flags is " + std::to_string(flags) + ": must be 0, FOVEA_EXEC_CHECK or FOVEA_EXEC_EARLY");
  }
  EXPECT_EQ(message([](Exec& e) { e.flags = FOVEA_EXEC_EARLY; }),
            "exec.flags is FOVEA_EXEC_EARLY: needs a CUDA device of compute capability 9.0 or later");
  EXPECT_EQ(message([&](Exec& e) { e.stream = &e; }), "exec.stream is given: must be null on the CPU");
  EXPECT_EQ(message([](Exec& e) { e.struct_size = 3; }).substr(0, 26), "exec.struct_size is 3: mus");
  if (workspace.exec.scratch_bytes > 0) {
    const std::string need = "must be at least " + std::to_string(workspace.exec.scratch_bytes);
    EXPECT_EQ(message([](Exec& e) { e.scratch_bytes -= 1; }),
              "exec.scratch_bytes is " + std::to_string(workspace.exec.scratch_bytes - 1) + ": " + need);
    EXPECT_EQ(message([](Exec& e) { e.scratch = nullptr; }), "exec.scratch is null: this plan needs the memory");
    EXPECT_EQ(fovea_plan_run(plan.get(), c.params(), nullptr), FOVEA_INVALID_VALUE);
    EXPECT_EQ(std::string(fovea_last_error()), "exec.scratch_bytes is 0: " + need);
  } else {
    EXPECT_EQ(fovea_plan_run(plan.get(), c.params(), nullptr), FOVEA_OK) << "no workspace, no exec";
    return;
  }
  EXPECT_EQ(c.outputs(), before) << "written in spite of an error";
}

TEST_P(EveryOp, ExplainNamesTheOperationAndFitsAnyBuffer) {
  const OpCase c = fresh();
  const PlanPtr plan = plan_of(context_, c);
  uint64_t needed = 0;
  ASSERT_EQ(fovea_plan_explain(plan.get(), nullptr, 0, &needed), FOVEA_OK);
  std::string text(needed, '?');
  ASSERT_EQ(fovea_plan_explain(plan.get(), text.data(), needed, nullptr), FOVEA_OK);
  EXPECT_EQ(text.back(), '\0');
  text.pop_back();
  EXPECT_EQ(text.find('\0'), std::string::npos);
  EXPECT_EQ(text.rfind(std::string(row().name) + ": ", 0), 0u) << text;
  EXPECT_NE(text.find("cpu_"), std::string::npos) << "names the kernel: " << text;
  const Guarded cut(9, Place::end, 0x21);
  ASSERT_EQ(fovea_plan_explain(plan.get(), reinterpret_cast<char*>(cut.data()), 9, nullptr), FOVEA_OK);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(cut.data())), text.substr(0, 8));
  EXPECT_EQ(fovea_plan_explain(plan.get(), nullptr, 4, nullptr), FOVEA_INVALID_VALUE);
  EXPECT_STREQ(fovea_last_error(), "text is null: must hold size bytes");
}

TEST_P(EveryOp, APlanOutlivesItsContext) {
  const std::vector<std::byte> want = run_case(context_, fresh());
  const OpCase c = fresh();
  PlanPtr plan;
  {
    const Context gone({.threads = 3});
    plan = plan_of(gone, c);
  }
  const Workspace workspace(plan.get());
  ASSERT_EQ(fovea_plan_run(plan.get(), c.params(), &workspace.exec), FOVEA_OK) << fovea_last_error();
  EXPECT_EQ(c.outputs(), want);
}

// One plan and one context, callers on several threads, each with its own memory.
TEST_P(EveryOp, ConcurrentCallersGetTheSameBits) {
  const std::vector<std::byte> want = run_case(context_, fresh());
  const OpCase first = fresh();
  const PlanPtr plan = plan_of(context_, first);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) {
        const OpCase c = fresh();
        const Workspace workspace(plan.get());
        const bool ran = i % 2 ? row().call(context_.get(), c.params(), &workspace.exec) == FOVEA_OK
                               : fovea_plan_run(plan.get(), c.params(), &workspace.exec) == FOVEA_OK;
        wrong += !ran || c.outputs() != want;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

// Interesting contents of a field.
uint64_t odd_word(Rng& rng) {
  switch (rng.integer(0, 5)) {
    case 0:
      return static_cast<uint64_t>(rng.integer(-2, 20));
    case 1:
      return uint64_t{1} << rng.integer(0, 63);
    case 2:
      return static_cast<uint64_t>(rng.pick({INT32_MAX, INT32_MIN, 4096, 128, 33, 1000}));
    case 3: {
      const float f = rng.pick({0.5f, -1.0f, 1e30f, __builtin_nanf(""), __builtin_inff(), 1e-6f, 2.0f});
      uint32_t bits = 0;
      std::memcpy(&bits, &f, sizeof bits);
      return bits;
    }
    case 4:
      return rng.pick({uint64_t{INT64_MAX}, static_cast<uint64_t>(INT64_MIN), ~uint64_t{0}});
    default:
      return rng.bits();
  }
}

// Overwrites one word that is no host pointer.
void spoil(Rng& rng, HostStruct& s) {
  const size_t bytes = rng.chance(0.5) ? 4 : 8;
  const auto at = static_cast<size_t>(rng.integer(0, static_cast<int64_t>(s.size - bytes) / 4)) * 4;
  for (const size_t p : s.pointers) {
    if (at + bytes > p && at < p + sizeof(void*)) return;
  }
  const uint64_t word = odd_word(rng);
  std::memcpy(s.memory.get() + at, &word, bytes);
}

// supports says yes exactly where planning succeeds, and no with the message of planning; whatever is planned can be
// explained. 10^4 parameter sets of each operation, most of them broken in one to three words.
TEST_P(EveryOp, SupportsEqualsPlanning) {
  Rng rng = test_rng(static_cast<uint64_t>(row().op));
  SCOPED_TRACE(seed_note());
  OpCase c = fresh();
  std::vector<std::vector<std::byte>> good;
  for (const HostStruct& s : c.structs()) good.emplace_back(s.memory.get(), s.memory.get() + s.size);
  const auto sets = static_cast<int>(10000 * effort());
  int planned = 0;
  for (int i = 0; i < sets; ++i) {
    auto saved = good.begin();
    for (HostStruct& s : c.structs()) std::copy(saved->begin(), saved->end(), s.memory.get()), ++saved;
    for (int64_t words = rng.integer(0, 3); words > 0; --words) {
      auto target = c.structs().begin();
      if (rng.chance(0.3)) std::advance(target, rng.integer(0, static_cast<int64_t>(c.structs().size()) - 1));
      spoil(rng, *target);
    }
    const fovea_support answer = fovea_supports(context_.get(), row().op, c.params());
    const std::string reason = fovea_last_error();
    fovea_plan* raw = nullptr;
    const fovea_status code = fovea_plan_create(context_.get(), row().op, c.params(), &raw);
    const PlanPtr plan(raw);
    ASSERT_EQ(answer == FOVEA_SUPPORT_YES, code == FOVEA_OK) << "set " << i << ": " << reason;
    ASSERT_EQ(reason, fovea_last_error()) << "set " << i;
    ASSERT_EQ(reason.empty(), code == FOVEA_OK) << "set " << i;
    ASSERT_EQ(raw != nullptr, code == FOVEA_OK);
    ASSERT_NE(code, FOVEA_INTERNAL) << "set " << i;
    if (code != FOVEA_OK) continue;
    ++planned;
    uint64_t needed = 0, scratch = 0, sync = 0;
    ASSERT_EQ(fovea_plan_explain(raw, nullptr, 0, &needed), FOVEA_OK);
    ASSERT_EQ(fovea_plan_workspace(raw, &scratch, &sync), FOVEA_OK);
    ASSERT_LE(sync, 64u * 1024) << "the sync of a stream";
  }
  EXPECT_GT(planned, sets / 10) << "too few sets are valid to show anything";
  EXPECT_LT(planned, sets * 9 / 10) << "too few sets are broken to show anything";
}

}  // namespace
