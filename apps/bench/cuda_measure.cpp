// SPDX-License-Identifier: Apache-2.0
#include "bench/cuda_measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace fovea::bench {

namespace {

using Clock = std::chrono::steady_clock;
constexpr double kSampleSeconds = 1e-3;
constexpr double kWarmUpSeconds = 0.3;  // the clocks of an idle device rise within this
constexpr uint64_t kMostGraphs = 64;

// One unit of work to queue: a call, or a graph of calls.
class Units {
 public:
  Units(CudaDevice& device, Case& c, int64_t graph) : device_(device), case_(c), calls_(std::max<int64_t>(graph, 1)) {
    if (graph == 0) return;
    const uint64_t size = static_cast<uint64_t>(graph);
    const uint64_t wanted = (c.sets() + size - 1) / size;
    for (uint64_t i = 0; i < std::min(wanted, kMostGraphs); ++i) {
      graphs_.push_back(device.capture([&] {
        for (int64_t j = 0; j < graph; ++j) call();
      }));
    }
  }
  ~Units() {
    for (CudaGraphExec graph : graphs_) device_.destroy(graph);
  }
  Units(const Units&) = delete;
  Units& operator=(const Units&) = delete;

  int64_t calls() const { return calls_; }
  uint64_t count() const { return graphs_.empty() ? case_.sets() : graphs_.size(); }  // of different ones
  void queue() {
    if (graphs_.empty()) return call();
    device_.launch(graphs_[next_]);
    next_ = next_ + 1 == graphs_.size() ? 0 : next_ + 1;
  }

 private:
  void call() {
    case_.run(set_);
    set_ = set_ + 1 == case_.sets() ? 0 : set_ + 1;
  }

  CudaDevice& device_;
  Case& case_;
  int64_t calls_;
  uint64_t set_ = 0;
  std::vector<CudaGraphExec> graphs_;
  size_t next_ = 0;
};

}  // namespace

Timing measure_on(CudaDevice& device, Case& c, int64_t samples, int64_t graph,
                  const std::function<void(int64_t done)>& progress) {
  device.wait();  // until the operands are there
  const Clock::time_point first = Clock::now();
  c.run(0);  // what the first call alone does is no part of a graph
  device.wait();
  const double first_seconds = std::chrono::duration<double>(Clock::now() - first).count();
  Units units(device, c, graph);

  const Clock::time_point start = Clock::now();
  const auto since_start = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  for (uint64_t i = 0; i < units.count() && (i < 1 || since_start() < kWarmUpSeconds); ++i) units.queue();
  device.wait();
  double estimate = 0;  // seconds of a unit
  for (int64_t n = 1; estimate == 0 || since_start() < kWarmUpSeconds;) {
    const double seconds = device.time(1, [&](int64_t) {
      for (int64_t i = 0; i < n; ++i) units.queue();
    })[0];
    estimate = std::max(seconds / static_cast<double>(n), 1e-9);
    n = std::clamp<int64_t>(static_cast<int64_t>(20 * kSampleSeconds / estimate), 1, 10000);
  }

  const auto per_sample = std::max<int64_t>(1, static_cast<int64_t>(std::ceil(kSampleSeconds / estimate)));
  std::vector<double> seconds = device.time(samples, [&](int64_t sample) {
    if (progress) progress(sample);
    for (int64_t i = 0; i < per_sample; ++i) units.queue();
  });
  c.check();
  const int64_t calls = per_sample * units.calls();
  for (double& s : seconds) s /= static_cast<double>(calls);
  Timing timing = summarize(std::move(seconds), calls);
  timing.first = first_seconds;
  return timing;
}

}  // namespace fovea::bench
