// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/thread_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "support/random.h"

namespace {

using fovea::cpu::ThreadPool;

// The hook with a callable.
template <class Body>
void run(const fovea_thread_pool& pool, int64_t n, const Body& body) {
  pool.run(
      pool.self, [](void* arg, int64_t i) { (*static_cast<const Body*>(arg))(i); },
      const_cast<void*>(static_cast<const void*>(&body)), n);
}

int64_t times(int64_t n) {
  return std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(n) * fovea::test::effort()));
}

TEST(ThreadPool, EveryIndexOnceAndAllDoneOnReturn) {
  for (const int32_t threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    const fovea_thread_pool hook = pool.hook();
    EXPECT_EQ(hook.count(hook.self), threads);
    for (const int64_t n : {0, 1, 2, 3, 7, 100, 5000}) {
      std::vector<int> seen(static_cast<size_t>(n), 0);  // not atomic: the return orders it
      run(hook, n, [&](int64_t i) { ++seen[static_cast<size_t>(i)]; });
      EXPECT_EQ(seen, std::vector<int>(static_cast<size_t>(n), 1)) << threads << " threads";
    }
  }
}

// Short jobs one after another: the next begins while helpers of the last are still leaving.
TEST(ThreadPool, ManyShortJobs) {
  for (const int32_t threads : {2, 5}) {
    ThreadPool pool(threads);
    int64_t sum = 0;
    for (int64_t job = 0; job < times(20000); ++job) {
      int64_t part[3] = {};
      run(pool.hook(), 3, [&](int64_t i) { part[i] = job + i; });
      sum += part[0] + part[1] + part[2] - 3 * job - 3;
    }
    EXPECT_EQ(sum, 0);
  }
}

// Workers sleep between these jobs.
TEST(ThreadPool, WakesFromSleep) {
  ThreadPool pool(3);
  for (int job = 0; job < 20; ++job) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::atomic<int64_t> sum{0};
    run(pool.hook(), 50, [&](int64_t i) { sum += i; });
    EXPECT_EQ(sum, 1225);
  }
}

TEST(ThreadPool, CallersFromSeveralThreadsQueue) {
  ThreadPool pool(3);
  std::atomic<int64_t> wrong{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (int64_t job = 0; job < times(500); ++job) {
        std::vector<int64_t> out(17, -1);
        run(pool.hook(), 17, [&](int64_t i) { out[static_cast<size_t>(i)] = i; });
        for (int64_t i = 0; i < 17; ++i) wrong += out[static_cast<size_t>(i)] != i;
      }
    });
  }
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(wrong, 0);
}

// A task that calls the same pool, or another, runs that inline: no thread waits for itself.
TEST(ThreadPool, NestedCallsRunInline) {
  ThreadPool pool(3), other(2);
  std::atomic<int64_t> sum{0};
  std::atomic<int64_t> moved{0};
  run(pool.hook(), 8, [&](int64_t) {
    const std::thread::id self = std::this_thread::get_id();
    for (ThreadPool* p : {&pool, &other}) {
      run(p->hook(), 10, [&](int64_t i) {
        sum += i;
        moved += std::this_thread::get_id() != self;
      });
    }
  });
  EXPECT_EQ(sum, 8 * 2 * 45);
  EXPECT_EQ(moved, 0);
  // The threads are free again afterwards.
  run(pool.hook(), 100, [&](int64_t) { ++sum; });
  EXPECT_EQ(sum, 8 * 2 * 45 + 100);
}

TEST(ThreadPool, BeginsAndEndsWithoutAJob) {
  for (int i = 0; i < 50; ++i) ThreadPool pool(4);
}

// Threads really help: tasks that wait for each other finish.
TEST(ThreadPool, WorkersRunTasksAtTheSameTime) {
  ThreadPool pool(3);
  std::atomic<int> arrived{0};
  run(pool.hook(), 3, [&](int64_t) {
    ++arrived;
    while (arrived < 3) std::this_thread::yield();
  });
  EXPECT_EQ(arrived, 3);
}

}  // namespace
