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
#include "backend/cpu/kernels/sample_cut-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::cpu {
namespace HWY_NAMESPACE {

constexpr float kNone = -__builtin_inff();

// Logits [i, i + count) of a row; NaN and lanes after count as -inf, -0 as 0.
HWY_INLINE F32Vec Logits(Dtype type, const char* p, i64_t i, size_t count) {
  const F32Tag d;
  const F32Vec x = Lanes(type, p, i, count);
  const auto number = hn::AndNot(hn::IsNaN(x), hn::FirstN(d, count));
  return hn::IfThenElse(number, hn::Add(x, hn::Zero(d)), hn::Set(d, kNone));
}

float Peak(Dtype type, const char* p, i64_t n) {
  const F32Tag d;
  F32Vec best = hn::Set(d, kNone);
  ForLanes(n, [&](i64_t i, size_t count) { best = hn::Max(best, Logits(type, p, i, count)); });
  return hn::GetLane(hn::MaxOfLanes(d, best));
}

i64_t SampleBest(Dtype type, const char* p, i64_t n) {
  const F32Tag d;
  const float peak = Peak(type, p, n);
  if (peak == kNone) return -1;
  const i64_t step = static_cast<i64_t>(hn::Lanes(d));
  const F32Vec best = hn::Set(d, peak);
  for (i64_t i = 0;; i += step) {
    const i64_t rest = n - i;
    const F32Vec x = Logits(type, p, i, static_cast<size_t>(rest < step ? rest : step));
    const auto at = hn::FindFirstTrue(d, hn::Eq(x, best));
    if (at >= 0) return i + at;
  }
}

float SamplePeak(const float* logits, i64_t n) {
  return Peak(Dtype::f32, reinterpret_cast<const char*>(logits), n);
}

float SampleLoad(const View& from, i64_t r, float* to) {
  const F32Tag d;
  const char* p = row_or_null(from, r);
  F32Vec best = hn::Set(d, kNone);
  ForLanes(from.shape[1], [&](i64_t i, size_t count) {
    const F32Vec x = Logits(from.dtype, p, i, count);
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

void KeepTopP(const SampleWorkspace& to, i64_t n, float top_p) {
  const auto measure = [&](i64_t i) { return static_cast<double>(to.weights[i]); };
  Cut<double> cut = FindCut(to.logits, n, static_cast<double>(top_p) * Total(to.weights, n), measure);
  for (i64_t i = 0; i < n; ++i) {
    if (!cut.Keeps(to.logits[i], measure(i))) to.weights[i] = 0;
  }
}

// Leaves what may be drawn in `to`, by id.
SampleKept SampleKeep(i64_t vocab, const SampleRule& rule, float max, const SampleWorkspace& to) {
  const i64_t k = rule.top_p == 0 ? 1 : rule.top_k;
  SampleKept kept{.n = vocab, .all = k >= vocab, .max = max, .temperature = rule.temperature};
  if (!kept.all) kept.n = KeepTopK(to, vocab, k);
  Weigh(to.logits, kept.n, max, rule.temperature, to.weights);
  if (rule.top_p > 0 && rule.top_p < 1) KeepTopP(to, kept.n, rule.top_p);
  for (i64_t i = 0; rule.min_p > 0 && i < kept.n; ++i) {
    if (to.weights[i] < rule.min_p) to.weights[i] = 0;
  }
  kept.total = Total(to.weights, kept.n);
  return kept;
}

i64_t SampleDraw(const SampleKept& kept, const SampleWorkspace& to, double uniform) {
  const float* w = to.weights;
  const double target = uniform * kept.total;
  double before = 0;
  i64_t drawn = 0;
  ForBlocks(w, kept.n, [&](i64_t first, i64_t count, double sum) {
    if (before + sum <= target) {
      before += sum;
      return false;
    }
    for (i64_t i = first; i < first + count; ++i) {
      if (w[i] == 0) continue;
      drawn = i;  // rounding may leave the sum short at the end of the block: then its last one
      before += static_cast<double>(w[i]);
      if (before > target) break;
    }
    return true;
  });
  return to.id(kept, drawn);
}

i64_t SampleTop(const SampleKept& kept, const SampleWorkspace& to, i64_t k, bool drawable) {
  const i64_t most = k < kept.n ? k : kept.n;
  Cut<u32_t> cut = FindCut(to.logits, kept.n, static_cast<u32_t>(most), [](i64_t) { return 1u; });
  i64_t n = 0;
  for (i64_t i = 0; i < kept.n; ++i) {
    const float x = to.logits[i];
    if (!cut.Keeps(x, 1) || x == kNone || (drawable && to.weights[i] == 0)) continue;
    to.top[n++] = u64_t{~Key(x)} << 32 | static_cast<u32_t>(to.id(kept, i));
  }
  return n;
}

double SampleTotal(i64_t n, float max, const SampleWorkspace& to) {
  Weigh(to.logits, n, max, 1, to.weights);
  return Total(to.weights, n);
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::cpu {

HWY_EXPORT(SampleBest);
HWY_EXPORT(SamplePeak);
HWY_EXPORT(SampleLoad);
HWY_EXPORT(SampleKeep);
HWY_EXPORT(SampleDraw);
HWY_EXPORT(SampleTop);
HWY_EXPORT(SampleTotal);

i64_t sample_best(const Isa& isa, Dtype type, const char* row, i64_t vocab) {
  return FOVEA_CPU_KERNEL(isa, SampleBest)(type, row, vocab);
}
float sample_peak(const Isa& isa, const float* logits, i64_t n) {
  return FOVEA_CPU_KERNEL(isa, SamplePeak)(logits, n);
}
float sample_load(const Isa& isa, const View& from, i64_t row, float* to) {
  return FOVEA_CPU_KERNEL(isa, SampleLoad)(from, row, to);
}
SampleKept sample_keep(const Isa& isa, i64_t vocab, const SampleRule& rule, float max, const SampleWorkspace& to) {
  return FOVEA_CPU_KERNEL(isa, SampleKeep)(vocab, rule, max, to);
}
i64_t sample_draw(const Isa& isa, const SampleKept& kept, const SampleWorkspace& to, double uniform) {
  return FOVEA_CPU_KERNEL(isa, SampleDraw)(kept, to, uniform);
}
i64_t sample_top(const Isa& isa, const SampleKept& kept, const SampleWorkspace& to, i64_t k, bool drawable) {
  return FOVEA_CPU_KERNEL(isa, SampleTop)(kept, to, k, drawable);
}
double sample_total(const Isa& isa, i64_t n, float max, const SampleWorkspace& to) {
  return FOVEA_CPU_KERNEL(isa, SampleTotal)(n, max, to);
}

}  // namespace fovea::cpu
#endif
