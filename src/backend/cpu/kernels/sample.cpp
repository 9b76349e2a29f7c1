// SPDX-License-Identifier: Apache-2.0
// One token from one row of logits.
//
//   weight  w = exp((logit - max) / temperature), f32; 0 below e^-86; 1 where logit = max, also for +inf
//   order   logit downwards, then id upwards; NaN counts as -inf, -0 as 0
//   top-k   the first k of the order
//   top-p   of these, those before which less than top_p of their whole weight stands
//   min-p   of these, those of weight at least min_p (the best one has 1)
//   draw    in order of the ids, the first whose sum of weights exceeds draw * total
//
// The cut of top-k and top-p is found without sorting: logits become 32-bit keys of the same order, and three passes
// over 11, 11 and 10 of their bits narrow down the key at which the count or weight is reached. Nothing here is fused
// and every sum has one order (f64, blocks of 1024 in 16 lanes), so all instruction sets give the same token.
#include "backend/cpu/kernels/sample.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/sample.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "backend/cpu/kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::cpu {
namespace HWY_NAMESPACE {

constexpr float kNone = -__builtin_inff();

// Logits [i, i + count) of a row; NaN and lanes after count as -inf, -0 as 0.
HWY_INLINE F32Vec Logits(const SampleArgs& a, const char* p, i64_t i, size_t count) {
  const F32Tag d;
  const F32Vec x = Lanes(a.logits.dtype, p, i, count);
  const auto number = hn::AndNot(hn::IsNaN(x), hn::FirstN(d, count));
  return hn::IfThenElse(number, hn::Add(x, hn::Zero(d)), hn::Set(d, kNone));
}

i64_t SampleGreedy(const SampleArgs& a, i64_t r) {
  const F32Tag d;
  const char* p = row(a.logits, r);
  const i64_t step = static_cast<i64_t>(hn::Lanes(d));
  F32Vec best = hn::Set(d, kNone);
  ForLanes(a.spec.vocab, [&](i64_t i, size_t count) { best = hn::Max(best, Logits(a, p, i, count)); });
  best = hn::MaxOfLanes(d, best);
  if (hn::GetLane(best) == kNone) return -1;
  for (i64_t i = 0;; i += step) {
    const i64_t rest = a.spec.vocab - i;
    const F32Vec x = Logits(a, p, i, static_cast<size_t>(rest < step ? rest : step));
    const auto at = hn::FindFirstTrue(d, hn::Eq(x, best));
    if (at >= 0) return i + at;
  }
}

// The row as f32 in `to`; answers its highest logit.
float Load(const SampleArgs& a, i64_t r, float* to) {
  const F32Tag d;
  const char* p = row(a.logits, r);
  F32Vec best = hn::Set(d, kNone);
  ForLanes(a.spec.vocab, [&](i64_t i, size_t count) {
    const F32Vec x = Logits(a, p, i, count);
    best = hn::Max(best, x);
    hn::StoreU(x, d, to + i);
  });
  return hn::GetLane(hn::MaxOfLanes(d, best));
}

// exp(z) for z in [-86, 0], without fused steps.
HWY_INLINE F32Vec PlainExp(F32Vec z) {
  const F32Tag d;
  const hn::RebindToSigned<F32Tag> di;
  const auto k = hn::NearestInt(hn::Mul(z, hn::Set(d, 1.44269504f)));
  const F32Vec kf = hn::ConvertTo(d, k);
  F32Vec r = hn::Sub(z, hn::Mul(kf, hn::Set(d, 0x1.63p-1f)));
  r = hn::Sub(r, hn::Mul(kf, hn::Set(d, -2.12194440e-4f)));
  constexpr float kTerms[] = {0x1.6d44b6p-10f, 0x1.120cbep-7f, 0x1.5554e8p-5f, 0x1.5554dcp-3f, 0.5f, 1.0f, 1.0f};
  F32Vec y = hn::Set(d, kTerms[0]);
#pragma GCC unroll 8
  for (size_t i = 1; i < 7; ++i) y = hn::Add(hn::Mul(y, r), hn::Set(d, kTerms[i]));
  return hn::Mul(y, hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(k, hn::Set(di, 127)))));
}

void Weigh(const float* logits, i64_t n, float max, float temperature, float* weights) {
  const F32Tag d;
  const F32Vec half = hn::Set(d, 0.5f), half_max = hn::Set(d, max * 0.5f), t = hn::Set(d, temperature);
  for (i64_t i = 0; i < n; i += static_cast<i64_t>(hn::Lanes(d))) {
    const F32Vec x = hn::LoadU(d, logits + i);
    // Halves: the difference of two finite logits is finite, and over an infinite temperature 0.
    const F32Vec q = hn::Div(hn::Sub(hn::Mul(x, half), half_max), t), z = hn::Add(q, q);
    const auto counts = hn::Ge(z, hn::Set(d, -86.0f));  // not where z is NaN: -inf / inf
    const F32Vec w = hn::IfThenElseZero(counts, PlainExp(hn::IfThenElseZero(counts, z)));
    hn::StoreU(hn::IfThenElse(hn::Eq(x, hn::Set(d, max)), hn::Set(d, 1.0f), w), d, weights + i);
  }
}

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

// Leaves the first k of the order in `to`, by id; answers how many.
i64_t KeepTopK(const SampleWorkspace& to, i64_t n, i64_t k) {
  Cut<u32_t> cut = FindCut(to.logits, n, static_cast<u32_t>(k), [](i64_t) { return 1u; });
  i64_t kept = 0;
  for (i64_t i = 0; i < n; ++i) {
    if (!cut.Keeps(to.logits[i], 1)) continue;
    to.logits[kept] = to.logits[i];
    to.ids[kept++] = static_cast<i32_t>(i);
  }
  return kept;
}

constexpr i64_t kBlock = 1024;

// Sum of at most kBlock weights.
double BlockSum(const float* w, i64_t n) {
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

double Total(const float* w, i64_t n) {
  double total = 0;
  ForBlocks(w, n, [&](i64_t, i64_t, double sum) {
    total += sum;
    return false;
  });
  return total;
}

void KeepTopP(const SampleWorkspace& to, i64_t n, float top_p) {
  const auto measure = [&](i64_t i) { return static_cast<double>(to.weights[i]); };
  Cut<double> cut = FindCut(to.logits, n, static_cast<double>(top_p) * Total(to.weights, n), measure);
  for (i64_t i = 0; i < n; ++i) {
    if (!cut.Keeps(to.logits[i], measure(i))) to.weights[i] = 0;
  }
}

i64_t Draw(const float* w, i64_t n, double uniform) {
  const double target = uniform * Total(w, n);
  double before = 0;
  i64_t token = 0;
  ForBlocks(w, n, [&](i64_t first, i64_t count, double sum) {
    if (before + sum <= target) {
      before += sum;
      return false;
    }
    for (i64_t i = first; i < first + count; ++i) {
      if (w[i] == 0) continue;
      token = i;  // rounding may leave the sum short at the end of the block: then its last one
      before += static_cast<double>(w[i]);
      if (before > target) break;
    }
    return true;
  });
  return token;
}

i64_t SampleDraw(const SampleArgs& a, i64_t r, const SampleRule& rule, const SampleWorkspace& to) {
  const float max = Load(a, r, to.logits);
  if (max == kNone) return -1;
  const i64_t k = rule.top_p == 0 ? 1 : rule.top_k;
  const bool all = k >= a.spec.vocab;
  const i64_t n = all ? a.spec.vocab : KeepTopK(to, a.spec.vocab, k);
  Weigh(to.logits, n, max, rule.temperature, to.weights);
  if (rule.top_p > 0 && rule.top_p < 1) KeepTopP(to, n, rule.top_p);
  for (i64_t i = 0; rule.min_p > 0 && i < n; ++i) {
    if (to.weights[i] < rule.min_p) to.weights[i] = 0;
  }
  const i64_t drawn = Draw(to.weights, n, rule.draw);
  return all ? drawn : to.ids[drawn];
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::cpu {

HWY_EXPORT(SampleGreedy);
HWY_EXPORT(SampleDraw);

i64_t sample_greedy(const Isa& isa, const SampleArgs& args, i64_t row) {
  return FOVEA_CPU_KERNEL(isa, SampleGreedy)(args, row);
}

i64_t sample_draw(const Isa& isa, const SampleArgs& args, i64_t row, const SampleRule& rule,
                  const SampleWorkspace& to) {
  return FOVEA_CPU_KERNEL(isa, SampleDraw)(args, row, rule, to);
}

}  // namespace fovea::cpu
#endif
