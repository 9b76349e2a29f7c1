// SPDX-License-Identifier: Apache-2.0
// The run of a plan allocates nothing. This file replaces the global operator new of the test program; not inlined, so
// that the compiler does not see one of a pair without the other.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "api/cases.h"
#include "support/guarded.h"

namespace {
std::atomic<int64_t> allocations{0};

void* counted(std::size_t bytes, std::size_t align) {
  ++allocations;
  void* p = nullptr;
  if (posix_memalign(&p, align < sizeof(void*) ? sizeof(void*) : align, bytes ? bytes : 1) != 0) throw std::bad_alloc();
  return p;
}
}  // namespace

[[gnu::noinline]] void* operator new(std::size_t bytes) {
  return counted(bytes, alignof(std::max_align_t));
}
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t align) {
  return counted(bytes, static_cast<std::size_t>(align));
}
[[gnu::noinline]] void operator delete(void* p) noexcept {
  std::free(p);
}
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept {
  std::free(p);
}
[[gnu::noinline]] void operator delete(void* p, std::align_val_t) noexcept {
  std::free(p);
}
[[gnu::noinline]] void operator delete(void* p, std::size_t, std::align_val_t) noexcept {
  std::free(p);
}

namespace {

using namespace fovea::test;

TEST(Allocation, TheCounterCounts) {
  const int64_t before = allocations;
  ::operator delete(::operator new(4));  // calls, which may not be left out
  EXPECT_EQ(allocations, before + 1);
}

TEST(Allocation, RunsOfPlansAllocateNothing) {
  const fovea::Context context({.threads = 3});
  for (int i = 0; i < c_operation_count; ++i) {
    const OpCase c(c_operations[i]);
    fovea_plan* plan = nullptr;
    ASSERT_EQ(fovea_plan_create(context.get(), c.op(), c.params(), &plan), FOVEA_OK) << fovea_last_error();
    fovea::Exec exec;
    ASSERT_EQ(fovea_plan_workspace(plan, &exec.scratch_bytes, &exec.sync_bytes), FOVEA_OK);
    const Guarded scratch(exec.scratch_bytes), sync((exec.sync_bytes + 7) / 8 * 8, Place::end, 0);
    exec.scratch = scratch.data();
    exec.sync = sync.data();
    const int64_t before = allocations;
    fovea_status code = FOVEA_OK;
    for (int repeat = 0; repeat < 3 && code == FOVEA_OK; ++repeat) code = fovea_plan_run(plan, c.params(), &exec);
    const int64_t after = allocations;
    EXPECT_EQ(code, FOVEA_OK) << c_operations[i].name << ": " << fovea_last_error();
    EXPECT_EQ(after, before) << c_operations[i].name;
    fovea_plan_destroy(plan);
  }
}

}  // namespace
