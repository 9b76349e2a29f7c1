// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/thread_pool.h"

#include <hwy/cache_control.h>

#if defined(__linux__)
#include <sched.h>
#endif

#include <algorithm>

namespace fovea::cpu {

namespace {

thread_local bool t_inside = false;  // this thread is running a task of some pool: nested calls run inline

constexpr int kSpins = 1000;  // looks at the counter before a thread sleeps

// Looks up to `spins` times whether `done` is true.
template <class Done>
void spin(int spins, const Done& done) {
  for (int i = 0; i < spins && !done(); ++i) hwy::Pause();
}

}  // namespace

int32_t ThreadPool::cores() {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
  return static_cast<int32_t>(std::max(1u, std::thread::hardware_concurrency()));
}

// With more threads than cores, one that looks keeps another from working.
ThreadPool::ThreadPool(int32_t threads) : spins_(threads > cores() ? 0 : kSpins) {
  try {
    for (int32_t i = 1; i < threads; ++i) workers_.emplace_back([this] { worker(); });
  } catch (...) {
    stop();
    throw;
  }
}

ThreadPool::~ThreadPool() {
  stop();
}

void ThreadPool::stop() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& t : workers_) t.join();
}

fovea_thread_pool ThreadPool::hook() {
  return {
      .self = this,
      .count = [](void* self) { return static_cast<int32_t>(static_cast<ThreadPool*>(self)->workers_.size()) + 1; },
      .run = [](void* self, Task task, void* arg, int64_t n) { static_cast<ThreadPool*>(self)->run(task, arg, n); }};
}

void ThreadPool::drain(Job& job) noexcept {
  t_inside = true;
  for (int64_t i; (i = job.next.fetch_add(1, std::memory_order_relaxed)) < job.n;) job.task(job.arg, i);
  t_inside = false;
}

void ThreadPool::run(Task task, void* arg, int64_t n) noexcept {
  if (t_inside || workers_.empty() || n <= 1) {
    for (int64_t i = 0; i < n; ++i) task(arg, i);
    return;
  }
  std::lock_guard queue(callers_);
  Job job{.task = task, .arg = arg, .n = n};
  {
    std::lock_guard lock(mutex_);
    job_ = &job;
    ++generation_;
  }
  wake_.notify_all();
  drain(job);
  {
    std::lock_guard lock(mutex_);
    job_ = nullptr;  // nobody enters any more
  }
  spin(spins_, [&] { return job.helpers == 0; });
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] { return job.helpers == 0; });
}

void ThreadPool::worker() noexcept {
  uint64_t seen = 0;
  while (true) {
    spin(spins_, [&] { return stop_ || generation_ != seen; });
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [&] { return stop_ || generation_ != seen; });
    if (stop_) return;
    seen = generation_;
    if (job_ == nullptr) continue;  // done before this thread came
    Job& job = *job_;
    ++job.helpers;
    lock.unlock();
    drain(job);
    lock.lock();
    if (--job.helpers == 0) idle_.notify_all();
  }
}

}  // namespace fovea::cpu
