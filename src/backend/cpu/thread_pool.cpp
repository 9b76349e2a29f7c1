// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/thread_pool.h"

#if defined(__linux__)
#include <sched.h>
#endif

#include <algorithm>

namespace fovea::cpu {

namespace {
thread_local bool t_inside = false;  // this thread is running a task of some pool: nested calls run inline
}

int32_t ThreadPool::cores() {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
  return static_cast<int32_t>(std::max(1u, std::thread::hardware_concurrency()));
}

ThreadPool::ThreadPool(int32_t threads) {
  for (int32_t i = 1; i < threads; ++i) workers_.emplace_back([this] { worker(); });
}

ThreadPool::~ThreadPool() {
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

void ThreadPool::drain(Job& job) {
  t_inside = true;
  for (int64_t i; (i = job.next.fetch_add(1, std::memory_order_relaxed)) < job.n;) job.task(job.arg, i);
  t_inside = false;
}

void ThreadPool::run(Task task, void* arg, int64_t n) {
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
  std::unique_lock lock(mutex_);
  job_ = nullptr;  // nobody enters any more
  idle_.wait(lock, [&] { return job.helpers == 0; });
}

void ThreadPool::worker() {
  uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return stop_ || (job_ != nullptr && generation_ != seen); });
    if (stop_) return;
    seen = generation_;
    Job& job = *job_;
    ++job.helpers;
    lock.unlock();
    drain(job);
    lock.lock();
    if (--job.helpers == 0) idle_.notify_all();
  }
}

}  // namespace fovea::cpu
