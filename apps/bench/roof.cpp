// SPDX-License-Identifier: Apache-2.0
#include "bench/roof.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/roof.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace fovea::bench {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Multiply-adds in ten independent chains: two units of four cycles each stay busy. Returns the number of operations.
double Fma(int64_t rounds, float* sink) {
  const hn::ScalableTag<float> d;
  const auto a = hn::Set(d, 0.5f), b = hn::Set(d, 0.25f);
  // Each begins elsewhere: equal chains would be compiled to one.
  const auto at = [&](float x) HWY_ATTR { return hn::Set(d, x); };
  auto x0 = at(0), x1 = at(1), x2 = at(2), x3 = at(3), x4 = at(4);
  auto x5 = at(5), x6 = at(6), x7 = at(7), x8 = at(8), x9 = at(9);
  for (int64_t i = 0; i < rounds; ++i) {
    x0 = hn::MulAdd(x0, a, b);
    x1 = hn::MulAdd(x1, a, b);
    x2 = hn::MulAdd(x2, a, b);
    x3 = hn::MulAdd(x3, a, b);
    x4 = hn::MulAdd(x4, a, b);
    x5 = hn::MulAdd(x5, a, b);
    x6 = hn::MulAdd(x6, a, b);
    x7 = hn::MulAdd(x7, a, b);
    x8 = hn::MulAdd(x8, a, b);
    x9 = hn::MulAdd(x9, a, b);
  }
  const auto low = hn::Add(hn::Add(hn::Add(x0, x1), hn::Add(x2, x3)), x4);
  *sink = hn::GetLane(hn::Add(low, hn::Add(hn::Add(hn::Add(x5, x6), hn::Add(x7, x8)), x9)));
  return static_cast<double>(rounds) * 10 * 2 * static_cast<double>(hn::Lanes(d));
}

// `n` is a multiple of four vectors.
void Read(const float* from, size_t n, float* sink) {
  const hn::ScalableTag<float> d;
  const size_t step = hn::Lanes(d);
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  for (size_t i = 0; i < n; i += 4 * step) {
    s0 = hn::Add(s0, hn::Load(d, from + i));
    s1 = hn::Add(s1, hn::Load(d, from + i + step));
    s2 = hn::Add(s2, hn::Load(d, from + i + 2 * step));
    s3 = hn::Add(s3, hn::Load(d, from + i + 3 * step));
  }
  *sink = hn::GetLane(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
}

// Stores past the caches: a plain one would first read the line that it overwrites.
void Copy(const float* from, size_t n, float* to) {
  const hn::ScalableTag<float> d;
  for (size_t i = 0; i < n; i += hn::Lanes(d)) hn::Stream(hn::Load(d, from + i), d, to + i);
  hwy::FlushStream();
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::bench
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <hwy/aligned_allocator.h>
#include <hwy/targets.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <thread>
#include <vector>

namespace fovea::bench {

HWY_EXPORT(Fma);
HWY_EXPORT(Read);
HWY_EXPORT(Copy);

namespace {

constexpr int64_t kMinPasses = 8;
constexpr double kMinSeconds = 0.1;             // of a measurement
constexpr uint64_t kSlice = uint64_t{1} << 20;  // floats that a thread reads in a pass: about a millisecond
constexpr int64_t kFmaRounds = 1 << 16;
constexpr size_t kGranule = 256;  // floats: four of the widest vectors, and a whole number of pages' lines

// The Highway target of that name, or else the best one.
void choose(const std::string& isa, hwy::ChosenTarget& chosen) {
  chosen.Update(hwy::SupportedTargets());
  for (int64_t targets = HWY_TARGETS; targets != 0; targets &= targets - 1) {
    const int64_t one = targets & -targets;
    if (isa == hwy::TargetName(one)) chosen.Update(one);
  }
}

#if (HWY_TARGETS & (HWY_TARGETS - 1)) == 0
#define FOVEA_ROOF_KERNEL(chosen, Function) (static_cast<void>(chosen), HWY_DISPATCH_TABLE(Function)[0])
#else
#define FOVEA_ROOF_KERNEL(chosen, Function) HWY_DISPATCH_TABLE(Function)[(chosen).GetIndex()]
#endif

struct Lane {  // one thread's memory
  hwy::AlignedFreeUniquePtr<float[]> from, to;
  float sink = 0;
  double flops = 0;
};

// Seconds of the fastest pass, in which every thread runs body(lane, pass) once. Passes are short and go on for a
// while, so that some of them are not disturbed by other work on the machine.
template <class Body>
double fastest(std::vector<Lane>& lanes, int64_t passes, const Body& body) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); };
  const Clock::time_point first = Clock::now();
  Clock::time_point start;
  double best = 1e30;
  int64_t done = 0;
  bool more = true;
  const auto count = static_cast<std::ptrdiff_t>(lanes.size());
  std::barrier begin(count, [&]() noexcept { start = Clock::now(); });
  std::barrier end(count, [&]() noexcept {
    best = std::min(best, since(start));
    more = ++done < passes || since(first) < kMinSeconds;
  });
  std::vector<std::thread> threads;
  threads.reserve(lanes.size());
  for (Lane& lane : lanes) {
    threads.emplace_back([&] {
      for (bool again = true; again; again = more) {
        begin.arrive_and_wait();
        body(lane, done);
        end.arrive_and_wait();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  return best;
}

}  // namespace

Roof measure_roof(int32_t threads, const std::string& isa, uint64_t bytes) {
  hwy::ChosenTarget chosen;
  choose(isa, chosen);
  // Half of the memory is read from, half written to; a pass takes the next slice of each.
  const uint64_t share = bytes / 2 / sizeof(float) / static_cast<uint64_t>(threads);
  const size_t n = std::max<size_t>(std::min(share, kSlice) / kGranule, 1) * kGranule;
  const size_t slices = std::max<size_t>(share / n, 1);
  std::vector<Lane> lanes(static_cast<size_t>(threads));
  for (Lane& lane : lanes) {
    lane.from = hwy::AllocateAligned<float>(slices * n);
    lane.to = hwy::AllocateAligned<float>(slices * n);
    std::fill_n(lane.from.get(), slices * n, 1.0f);
    std::fill_n(lane.to.get(), slices * n, 0.0f);
  }
  const auto passes = std::max(static_cast<int64_t>(slices), kMinPasses);
  const auto at = [&](int64_t pass) { return static_cast<size_t>(pass) % slices * n; };
  const double moved = static_cast<double>(n) * sizeof(float) * 2 * threads;
  Roof roof;
  roof.copy_bytes_per_s = moved / fastest(lanes, passes, [&](Lane& l, int64_t pass) {
                            FOVEA_ROOF_KERNEL(chosen, Copy)(l.from.get() + at(pass), n, l.to.get() + at(pass));
                          });
  roof.read_bytes_per_s = moved / fastest(lanes, passes, [&](Lane& l, int64_t pass) {
                            FOVEA_ROOF_KERNEL(chosen, Read)(l.from.get() + at(pass), n, &l.sink);
                            FOVEA_ROOF_KERNEL(chosen, Read)(l.to.get() + at(pass), n, &l.sink);
                          });
  const double seconds = fastest(
      lanes, kMinPasses, [&](Lane& l, int64_t) { l.flops = FOVEA_ROOF_KERNEL(chosen, Fma)(kFmaRounds, &l.sink); });
  for (const Lane& lane : lanes) roof.flops_per_s += lane.flops / seconds;
  return roof;
}

}  // namespace fovea::bench
#endif
