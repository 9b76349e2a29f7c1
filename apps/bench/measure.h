// SPDX-License-Identifier: Apache-2.0
// Times of a case, and what they mean beside the roof of the machine.
#pragma once

#include <functional>
#include <vector>

#include "bench/case.h"
#include "bench/roof.h"

namespace fovea::bench {

struct Timing {
  double median = 0, min = 0, p90 = 0;  // seconds of one call
  int64_t samples = 0;
  int64_t calls = 0;  // of one sample
  double first = 0;   // of a device: seconds of the first call alone, until it was done
};

// Takes the sets in turn. First every set once, untimed, or as many as go into half a second. A sample is as many calls
// as take at least 200 us; its time is divided by their number.
Timing measure(Case& c, int64_t samples, const std::function<void(int64_t done)>& progress = {});

// Median, smallest and 90th percentile of the samples' times of one call.
Timing summarize(std::vector<double> seconds, int64_t calls);

struct Rating {
  double bytes_per_s = 0, flops_per_s = 0;
  double memory_percent = 0, arithmetic_percent = 0;  // of each roof; 0 where it was not measured
  bool memory_bound = true;                           // moving the bytes alone takes longer than the arithmetic alone
  double percent = 0;                                 // the larger of the two: time that the roof allows / median
};
Rating rate(const Work& work, const Timing& timing, const Roof& roof);

}  // namespace fovea::bench
