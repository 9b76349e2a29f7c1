// SPDX-License-Identifier: Apache-2.0
// Contexts, plans of other shapes, messages, thread pools of the caller, and the C++ face.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sys/resource.h>
#include <unistd.h>
#endif

#include "api/cases.h"
#include "fovea/fovea.hpp"
#include "support/backends.h"
#include "support/tensors.h"

namespace {

using namespace fovea::test;
using fovea::Context;
using fovea::ContextParams;
using fovea::NormParams;
using fovea::Result;

std::string create_error(const ContextParams& params, fovea_status code) {
  fovea_context* context = nullptr;
  EXPECT_EQ(fovea_context_create(&params, &context), code);
  EXPECT_EQ(context, nullptr);
  return fovea_last_error();
}

TEST(ContextErrors, NameTheField) {
  EXPECT_EQ(create_error({.threads = -1}, FOVEA_INVALID_VALUE), "threads is -1: must be 0 to 4096");
  EXPECT_EQ(create_error({.threads = 4097}, FOVEA_INVALID_VALUE), "threads is 4097: must be 0 to 4096");
  EXPECT_EQ(create_error({.device_id = 1}, FOVEA_INVALID_VALUE), "device_id is 1: the CPU has only device 0");
  EXPECT_EQ(create_error({.device_type = FOVEA_METAL}, FOVEA_UNSUPPORTED),
            "device_type is 8: this build has the CPU (1) and CUDA (2)");
  const std::string compiled = Context({.threads = 1}).info().isa_compiled;
  for (const char* isa : {"AVX1024", "", "avx2"}) {
    EXPECT_EQ(create_error({.isa = isa}, FOVEA_INVALID_VALUE),
              std::string("isa is \"") + isa + "\": this binary on this machine has " + compiled);
  }
  const fovea_thread_pool incomplete;
  EXPECT_EQ(create_error({.pool = &incomplete}, FOVEA_INVALID_VALUE),
            "pool is incomplete: count and run must not be null");
  EXPECT_EQ(create_error({.threads = 2, .pool = &incomplete}, FOVEA_INVALID_VALUE),
            "threads is 2: must be 0 where pool is given");
  ContextParams older;
  older.struct_size = 8;
  EXPECT_EQ(create_error(older, FOVEA_INVALID_VALUE).substr(0, 26), "params.struct_size is 8: m");
  EXPECT_EQ(fovea_context_create(nullptr, nullptr), FOVEA_INVALID_VALUE);
  EXPECT_STREQ(fovea_last_error(), "out is null: must point to where the context goes");
}

TEST(ContextErrors, InfoOfAnUnknownVersion) {
  const Context context({.threads = 1});
  fovea_device_info info;
  info.struct_size = 1;
  EXPECT_EQ(fovea_context_info(context.get(), &info), FOVEA_INVALID_VALUE);
  EXPECT_EQ(fovea_context_info(context.get(), nullptr), FOVEA_INVALID_VALUE);
  EXPECT_STREQ(fovea_last_error(), "info is null: must point to its struct");
}

TEST(ContextInfo, SaysWhatRuns) {
  fovea_context* raw = nullptr;
  ASSERT_EQ(fovea_context_create(nullptr, &raw), FOVEA_OK) << "null parameters are the defaults";
  fovea_device_info info;
  ASSERT_EQ(fovea_context_info(raw, &info), FOVEA_OK);
  fovea_context_destroy(raw);
  EXPECT_EQ(info.device_type, FOVEA_CPU);
  EXPECT_GE(info.threads, 1);
  EXPECT_STRNE(info.name, "");
  const std::string compiled = info.isa_compiled;
  EXPECT_EQ(compiled.substr(0, compiled.find(' ')), info.isa) << "the best one is the default";
  for (const Backend& b : backends()) EXPECT_EQ("cpu " + std::string(b.context.info().isa), b.name);
  EXPECT_EQ(Context({.threads = 5}).info().threads, 5);
}

#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Threads that cannot be started are an error, not the end of the process.
TEST(ContextErrorsDeathTest, ThreadsThatCannotBeStarted) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto child = [] {
    const rlimit limit = {rlim_t{1} << 30, rlim_t{1} << 30};  // stacks of 8 MiB: some hundred threads at most
    setrlimit(RLIMIT_AS, &limit);
    fovea_context* context = nullptr;
    const ContextParams params{.threads = 4096};
    const fovea_status code = fovea_context_create(&params, &context);
    const std::string message = fovea_last_error();
    _exit(code == FOVEA_OUT_OF_MEMORY && message.rfind("threads is 4096: cannot start them", 0) == 0 ? 0 : 1);
  };
  EXPECT_EXIT(child(), ::testing::ExitedWithCode(0), "");
}
#endif

TEST(Messages, BelongToTheirThread) {
  const Context context({.threads = 1});
  EXPECT_EQ(fovea_plan_create(context.get(), 77, nullptr, nullptr), FOVEA_INVALID_VALUE);
  const std::string mine = fovea_last_error();
  std::thread other([&] {
    EXPECT_STREQ(fovea_last_error(), "");
    EXPECT_EQ(fovea_plan_run(nullptr, nullptr, nullptr), FOVEA_INVALID_VALUE);
    EXPECT_STREQ(fovea_last_error(), "plan is null: must be a plan");
  });
  other.join();
  EXPECT_EQ(mine, fovea_last_error());
}

// D29: a plan runs fewer rows, never more, and nothing of another width, type or option.
TEST(Plans, RunOtherShapesOnlyWhereTheyFit) {
  const Context context({.threads = 1});
  TensorBox x(FOVEA_F32, {9, 16}), out(FOVEA_F32, {9, 16}), wide(FOVEA_F32, {4, 17}), wide_out(FOVEA_F32, {4, 17});
  x.fill([](int64_t i) { return static_cast<double>(i); });
  const auto plan = context.plan(NormParams{.x = slice(x, 0, 0, 4), .out = slice(out, 0, 0, 4)});
  EXPECT_TRUE(plan.try_run({.x = slice(x, 0, 0, 3), .out = slice(out, 0, 0, 3)}));
  EXPECT_TRUE(plan.try_run({.x = slice(x, 0, 0, 0), .out = slice(out, 0, 0, 0)}));
  EXPECT_EQ(plan.try_run({.x = x, .out = out}).message, "rows of x is 9: the plan was made for at most 4");
  EXPECT_EQ(plan.try_run({.x = wide, .out = wide_out}).message,
            "the last dimension of x is 17: the plan was made for 16");
  TensorBox half(FOVEA_F16, {4, 16});
  EXPECT_EQ(plan.try_run({.x = half, .out = slice(out, 0, 0, 4)}).message,
            "norm: an option, type or shape is not the one the plan was made for");
  EXPECT_EQ(plan.try_run({.kind = FOVEA_NORM_L2, .x = slice(x, 0, 0, 4), .out = slice(out, 0, 0, 4)}).code,
            FOVEA_INVALID_VALUE);
}

TEST(Plans, EveryOwnOperationHoldsItsBounds) {
  const Context context({.threads = 1});
  TensorBox big(FOVEA_F32, {8, 32}), small(FOVEA_F32, {4, 32}), w(FOVEA_F32, {32, 32});
  const TensorBox ids = indices({1, 2, 3, 4, 5, 6, 7, 8}), few = indices({1, 2, 3, 4});
  const auto glu = context.plan(fovea::GluParams{.gate = small, .up = small, .out = small});
  EXPECT_EQ(glu.try_run({.gate = big, .up = big, .out = big}).message,
            "gate.shape[0] is 8: the plan was made for at most 4");
  const auto matmul = context.plan(fovea::MatmulParams{.x = small, .w = w, .out = small});
  EXPECT_EQ(matmul.try_run({.x = big, .w = w, .out = big}).message, "x.shape[0] is 8: the plan was made for at most 4");
  const auto embed = context.plan(fovea::EmbedParams{.ids = few, .table = w, .out = small});
  EXPECT_EQ(embed.try_run({.ids = ids, .table = w, .out = big}).message,
            "ids.shape[0] is 8: the plan was made for at most 4");
  const auto sample = context.plan(fovea::SampleParams{.logits = small, .tokens = few});
  EXPECT_EQ(sample.try_run({.logits = big, .tokens = ids}).message,
            "logits.shape[0] is 8: the plan was made for at most 4");
  EXPECT_EQ(sample.try_run({.temperature = 1, .logits = small, .tokens = few, .positions = few}).message,
            "sample: an option, type or shape is not the one the plan was made for");
}

// A pool that counts, runs backwards, and has no threads.
struct Backwards {
  std::atomic<int> runs{0};
  fovea_thread_pool hook() {
    return {.self = this,
            .count = [](void*) { return int32_t{3}; },
            .run =
                [](void* self, void (*task)(void*, int64_t), void* arg, int64_t n) {
                  ++static_cast<Backwards*>(self)->runs;
                  while (n-- > 0) task(arg, n);
                }};
  }
};

TEST(CallersPool, RunsEveryOperationWithTheSameBits) {
  Backwards pool;
  const fovea_thread_pool hook = pool.hook();
  const Context own({.threads = 2}), theirs({.pool = &hook});
  EXPECT_EQ(theirs.info().threads, 3);
  for (int i = 0; i < c_operation_count; ++i) {
    SCOPED_TRACE(c_operations[i].name);
    const OpCase a(c_operations[i]), b(c_operations[i]);
    for (const auto& [context, c] : {std::pair(&own, &a), {&theirs, &b}}) {
      fovea_plan* plan = nullptr;
      ASSERT_EQ(fovea_plan_create(context->get(), c->op(), c->params(), &plan), FOVEA_OK) << fovea_last_error();
      fovea::Exec exec;
      EXPECT_EQ(fovea_plan_workspace(plan, &exec.scratch_bytes, &exec.sync_bytes), FOVEA_OK);
      const Guarded scratch(exec.scratch_bytes), sync((exec.sync_bytes + 7) / 8 * 8, Place::end, 0);
      exec.scratch = scratch.data();
      exec.sync = sync.data();
      EXPECT_EQ(fovea_plan_run(plan, c->params(), &exec), FOVEA_OK) << fovea_last_error();
      fovea_plan_destroy(plan);
    }
    EXPECT_EQ(a.outputs(), b.outputs());
  }
  EXPECT_GT(pool.runs, 0);
}

// A call made from inside a task of another call: neither waits for the other.
TEST(CallersPool, CallsFromInsideATaskRun) {
  struct Nested {
    const Context* inner;
    std::atomic<int> failed{0};
  };
  const Context inner({.threads = 3});
  Nested nested{&inner};
  const fovea_thread_pool hook = {.self = &nested,
                                  .count = [](void*) { return int32_t{2}; },
                                  .run =
                                      [](void* self, void (*task)(void*, int64_t), void* arg, int64_t n) {
                                        auto* s = static_cast<Nested*>(self);
                                        const auto half = [&](int64_t first, int64_t last) {
                                          for (int64_t i = first; i < last; ++i) task(arg, i);
                                          TensorBox x(FOVEA_F32, {600, 100}), out(FOVEA_F32, {600, 100});
                                          x.fill([](int64_t e) { return static_cast<double>(e % 9); });
                                          s->failed += !fovea::try_norm(*s->inner, {.x = x, .out = out});
                                        };
                                        std::thread other(half, n / 2, n);
                                        half(0, n / 2);
                                        other.join();
                                      }};
  const Context outer({.pool = &hook});
  TensorBox x(FOVEA_F32, {600, 100}), out(FOVEA_F32, {600, 100});
  x.fill([](int64_t e) { return static_cast<double>(e % 7); });
  EXPECT_TRUE(fovea::try_norm(outer, {.x = x, .out = out}));
  EXPECT_EQ(nested.failed, 0);
}

TEST(CppFace, ThrowsWhatTryReturns) {
  const Context context({.threads = 1});
  TensorBox x(FOVEA_F32, {2, 8}), out(FOVEA_F32, {2, 4});
  const NormParams bad{.x = x, .out = out};
  const Result result = fovea::try_norm(context, bad);
  EXPECT_FALSE(result);
  try {
    fovea::norm(context, bad);
    FAIL() << "did not throw";
  } catch (const fovea::Error& error) {
    EXPECT_EQ(error.code(), result.code);
    EXPECT_EQ(error.what(), result.message);
    EXPECT_EQ(result.message, "out.shape is [2, 4]: must be [2, 8] (x)");
  }
  const fovea::Support support = context.supports(bad);
  EXPECT_FALSE(support);
  EXPECT_EQ(support.reason, result.message);
  EXPECT_THROW(context.plan(bad), fovea::Error);
  EXPECT_TRUE(context.supports(NormParams{.x = x, .out = x}));
  EXPECT_THROW(fovea::tensor(nullptr, 99, {1}), fovea::Error);
  EXPECT_THROW(fovea::tensor(nullptr, FOVEA_F32, {1, 2}, {1}), fovea::Error);
}

// A stride whose product with the shape leaves 64 bits is an error, not an overflow.
TEST(Tensors, StridesReachSomewhere) {
  const Context context({.threads = 1});
  TensorBox out(FOVEA_F32, {3, 8});
  for (const int64_t stride : {INT64_MAX, INT64_MIN, INT64_MAX / 2, int64_t{1} << 60}) {
    NormParams p{.x = out, .out = out};
    p.x.stride[0] = stride;
    EXPECT_EQ(fovea::try_norm(context, p).message,
              "x.stride[0] is " + std::to_string(stride) + ": reaches beyond every memory");
  }
  NormParams p{.x = slice(out, 0, 0, 1), .out = slice(out, 0, 0, 1)};
  p.x.stride[0] = INT64_MAX;  // of one row: never used
  EXPECT_TRUE(context.supports(p));
}

TEST(Devices, TensorsOfAnotherDeviceAreRefused) {
  const Context context({.threads = 1});
  TensorBox x(FOVEA_F32, {2, 8});
  NormParams p{.x = x, .out = x};
  p.out.device_type = FOVEA_CUDA;
  p.out.device_id = 3;
  EXPECT_EQ(fovea::try_norm(context, p).message, "out.device is cuda:3: the context is on cpu");
}

}  // namespace
