// SPDX-License-Identifier: Apache-2.0
// The context's own threads behind the hook fovea_thread_pool. Tasks are taken one by one from a counter, so results
// must not depend on which thread runs which: kernels write disjoint memory and split work by shape, never by thread
// count.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "base/status.h"

namespace fovea::cpu {

class ThreadPool {
 public:
  explicit ThreadPool(int32_t threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  fovea_thread_pool hook();
  static int32_t cores();  // that this process may use

 private:
  using Task = void (*)(void* arg, int64_t i);
  struct Job {
    Task task;
    void* arg;
    int64_t n;
    std::atomic<int64_t> next{0};
    int32_t helpers = 0;  // workers inside, guarded by mutex_
  };
  void run(Task task, void* arg, int64_t n);
  void worker();
  static void drain(Job& job);

  std::mutex callers_;  // one job at a time; other callers queue here
  std::mutex mutex_;
  std::condition_variable wake_, idle_;
  Job* job_ = nullptr;
  uint64_t generation_ = 0;
  bool stop_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace fovea::cpu
