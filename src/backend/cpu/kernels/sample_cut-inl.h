// SPDX-License-Identifier: Apache-2.0
// Order and sums of a row: where a count or a weight is reached in the order of the logits, without sorting, and sums
// that have one order on every instruction set. Included once per Highway target.
#if defined(FOVEA_CPU_SAMPLE_CUT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_CPU_SAMPLE_CUT_INL_H_
#undef FOVEA_CPU_SAMPLE_CUT_INL_H_
#else
#define FOVEA_CPU_SAMPLE_CUT_INL_H_
#endif

#include <hwy/highway.h>

#include "shared/convert.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::cpu {
namespace HWY_NAMESPACE {

// A number that orders as the float does.
HWY_INLINE u32_t Key(float x) {
  const u32_t b = bits_of_float(x);
  return b ^ (b >> 31 ? 0xFFFFFFFFu : 0x80000000u);
}

// Elements in order as long as the measure before them is below a target: all with a key above `key`, whose measure is
// `before`, then those with this key in order of their ids.
template <class Sum>
struct Cut {
  u32_t key;
  Sum before;
  Sum target;
  HWY_INLINE bool Keeps(float logit, Sum measure) {
    const u32_t k = Key(logit);
    if (k != key) return k > key;
    if (!(before < target)) return false;
    before += measure;
    return true;
  }
};

template <class Sum, class Measure>
Cut<Sum> FindCut(const float* logits, i64_t n, Sum target, const Measure& measure) {
  u64_t key = 0;
  Sum before = 0;
  for (int low = 21, bits = 11; bits > 0; bits = low < 11 ? low : 11, low -= bits) {
    Sum bins[1 << 11] = {};
    for (i64_t i = 0; i < n; ++i) {
      const u64_t k = Key(logits[i]);
      if (k >> (low + bits) == key) bins[k >> low & ((1u << bits) - 1)] += measure(i);
    }
    int bin = (1 << bits) - 1;
    for (; bin >= 0 && before + bins[bin] < target; --bin) before += bins[bin];
    if (bin < 0) return {.key = 0, .before = 0, .target = target};  // rounding, or fewer than wanted: keep all
    key = key << bits | static_cast<u64_t>(bin);
  }
  return {.key = static_cast<u32_t>(key), .before = before, .target = target};
}

constexpr i64_t kBlock = 1024;

// Sum of at most kBlock weights.
inline double BlockSum(const float* w, i64_t n) {
  double lanes[16] = {};
  i64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    for (int j = 0; j < 16; ++j) lanes[j] += static_cast<double>(w[i + j]);
  }
  for (int j = 0; i + j < n; ++j) lanes[j] += static_cast<double>(w[i + j]);
  for (int half = 8; half > 0; half /= 2) {
    for (int j = 0; j < half; ++j) lanes[j] += lanes[j + half];
  }
  return lanes[0];
}

// Calls body(first, count, sum) for each block until it answers true.
template <class Body>
HWY_INLINE void ForBlocks(const float* w, i64_t n, const Body& body) {
  for (i64_t i = 0; i < n; i += kBlock) {
    const i64_t count = n - i < kBlock ? n - i : kBlock;
    if (body(i, count, BlockSum(w + i, count))) return;
  }
}

inline double Total(const float* w, i64_t n) {
  double total = 0;
  ForBlocks(w, n, [&](i64_t, i64_t, double sum) {
    total += sum;
    return false;
  });
  return total;
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::cpu
HWY_AFTER_NAMESPACE();

#endif
