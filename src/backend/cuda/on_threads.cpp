// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/on_threads.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace fovea::cuda {

Status on_threads(size_t n, int threads, const std::function<Status(size_t)>& task) {
  std::atomic<size_t> next{0};
  std::mutex mutex;
  size_t failed_at = n;
  Status failure;
  const auto work = [&] {
    for (size_t i = next++; i < n; i = next++) {
      Status status;
      try {
        status = task(i);
      } catch (const std::exception& error) {
        status = {FOVEA_OUT_OF_MEMORY, error.what()};
      }
      if (status.ok()) continue;
      next = n;
      const std::lock_guard lock(mutex);
      if (i < failed_at) {
        failed_at = i;
        failure = std::move(status);
      }
    }
  };
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  const size_t helpers = std::min<size_t>(n, threads > 0 ? static_cast<size_t>(threads) : cores);
  std::vector<std::thread> team;
  for (size_t i = 1; i < helpers; ++i) {
    try {
      team.emplace_back(work);
    } catch (const std::system_error&) {
      break;  // the threads there are do the work
    }
  }
  work();
  for (std::thread& thread : team) thread.join();
  return failure;
}

}  // namespace fovea::cuda
