// SPDX-License-Identifier: Apache-2.0
#include "bench/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

namespace fovea::bench {

namespace {

using Clock = std::chrono::steady_clock;
constexpr double kSampleSeconds = 200e-6;
constexpr double kWarmUpSeconds = 0.5;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

Timing measure(Case& c, int64_t samples, const std::function<void(int64_t done)>& progress) {
  uint64_t set = 0;
  const auto call = [&] {
    c.run(set);
    set = set + 1 == c.sets() ? 0 : set + 1;
  };

  const Clock::time_point warm_up = Clock::now();
  uint64_t warm_calls = 0;
  while (warm_calls < c.sets() && (warm_calls < 1 || since(warm_up) < kWarmUpSeconds)) {
    call();
    ++warm_calls;
  }
  const double estimate = since(warm_up) / static_cast<double>(warm_calls);

  const auto calls = std::max<int64_t>(1, static_cast<int64_t>(std::ceil(kSampleSeconds / estimate)));
  std::vector<double> seconds;
  for (int64_t i = 0; i < samples; ++i) {
    if (progress) progress(i);
    const Clock::time_point start = Clock::now();
    for (int64_t j = 0; j < calls; ++j) call();
    seconds.push_back(since(start) / static_cast<double>(calls));
  }
  return summarize(std::move(seconds), calls);
}

Timing summarize(std::vector<double> seconds, int64_t calls) {
  Timing timing{.samples = static_cast<int64_t>(seconds.size()), .calls = calls};
  std::sort(seconds.begin(), seconds.end());
  // The smallest value with at least that share of the samples at or below it.
  const auto quantile = [&](double share) {
    return seconds[static_cast<size_t>(std::ceil(share * static_cast<double>(seconds.size()))) - 1];
  };
  timing.min = seconds.front();
  timing.median = quantile(0.5);
  timing.p90 = quantile(0.9);
  return timing;
}

Rating rate(const Work& work, const Timing& timing, const Roof& roof) {
  const auto share = [&](double amount, double per_s) { return per_s > 0 ? 100 * amount / per_s / timing.median : 0; };
  Rating rating{.bytes_per_s = work.bytes / timing.median,
                .flops_per_s = work.flops / timing.median,
                .memory_percent = share(work.bytes, roof.bytes_per_s()),
                .arithmetic_percent = share(work.flops, roof.flops_per_s)};
  rating.memory_bound = rating.memory_percent >= rating.arithmetic_percent;
  rating.percent = std::max(rating.memory_percent, rating.arithmetic_percent);
  return rating;
}

}  // namespace fovea::bench
