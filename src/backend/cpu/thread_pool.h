// SPDX-License-Identifier: Apache-2.0
// The context's own threads behind the hook fovea_thread_pool. Tasks are taken one by one from a counter, so results
// must not depend on which thread runs which: kernels write disjoint memory and split work by shape, never by thread
// count.
//
// A model calls this hundreds of times a token, microseconds apart, so workers and a waiting caller look for a short
// while before they sleep. Tasks must not throw: there is no thread to throw to.
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
  explicit ThreadPool(int32_t threads);  // the caller is one of them; throws std::system_error
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  fovea_thread_pool hook();
  static int32_t cores();  // that this process may use

 private:
  using Task = void (*)(void* arg, int64_t i);
  // Lives on the stack of its caller, who waits until no helper is inside. Helpers enter only while job_ points to it,
  // which mutex_ guards; nobody touches it after leaving.
  struct Job {
    Task task;
    void* arg;
    int64_t n;
    std::atomic<int64_t> next{0};
    std::atomic<int32_t> helpers{0};  // workers inside; changed only under mutex_
  };
  void run(Task task, void* arg, int64_t n) noexcept;
  void worker() noexcept;
  void stop();
  static void drain(Job& job) noexcept;

  const int spins_;     // looks before sleeping
  std::mutex callers_;  // one job at a time; other callers queue here
  std::mutex mutex_;
  std::condition_variable wake_, idle_;
  Job* job_ = nullptr;
  std::atomic<uint64_t> generation_{0};  // changed only under mutex_
  std::atomic<bool> stop_{false};        // changed only under mutex_
  std::vector<std::thread> workers_;
};

}  // namespace fovea::cpu
