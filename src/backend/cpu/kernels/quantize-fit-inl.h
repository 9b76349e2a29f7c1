// SPDX-License-Identifier: Apache-2.0
// The scale, or scale and offset, of a short run of weights with the least squared error. Included once per Highway
// target.
//
// Sixteen candidates are worked on together, one to a lane; the weights of the run are broadcast one by one. So nothing
// is summed across lanes, and since nothing is fused either, bits are the same on every instruction set.
#if defined(FOVEA_CPU_QUANTIZE_FIT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_CPU_QUANTIZE_FIT_INL_H_
#undef FOVEA_CPU_QUANTIZE_FIT_INL_H_
#else
#define FOVEA_CPU_QUANTIZE_FIT_INL_H_
#endif

#include "backend/cpu/kernels/convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::cpu {
namespace HWY_NAMESPACE {

// Sixteen lanes, in as many vectors as that takes.
constexpr int kCandidates = 16;
using FitTag = hn::CappedTag<float, kCandidates>;
using FitVec = hn::Vec<FitTag>;
constexpr int kFitLanes = static_cast<int>(hn::MaxLanes(FitTag()));
constexpr int kFitParts = kCandidates / kFitLanes;

struct Lanes16 {
  HWY_INLINE Lanes16() {}  // an implicit one would not be compiled for this target
  FitVec part[kFitParts];
};

HWY_INLINE Lanes16 Broadcast(float x) {
  Lanes16 all;
#pragma GCC unroll 4
  for (FitVec& p : all.part) p = hn::Set(FitTag(), x);
  return all;
}
HWY_INLINE Lanes16 LoadLanes(const float* x) {
  Lanes16 all;
#pragma GCC unroll 4
  for (int j = 0; j < kFitParts; ++j) all.part[j] = hn::LoadU(FitTag(), x + j * kFitLanes);
  return all;
}
HWY_INLINE void StoreLanes(const Lanes16& x, float* to) {
#pragma GCC unroll 4
  for (int j = 0; j < kFitParts; ++j) hn::StoreU(x.part[j], FitTag(), to + j * kFitLanes);
}

struct Range {
  float low, high;
  float extreme() const { return high >= -low ? high : low; }  // the one of largest magnitude
};

// n is a multiple of 16.
HWY_INLINE Range RangeOf(const float* x, int n) {
  const FitTag d;
  FitVec low = hn::LoadU(d, x), high = low;
  for (int i = kFitLanes; i < n; i += kFitLanes) {
    low = hn::Min(low, hn::LoadU(d, x + i));
    high = hn::Max(high, hn::LoadU(d, x + i));
  }
  return {hn::GetLane(hn::MinOfLanes(d, low)), hn::GetLane(hn::MaxOfLanes(d, high))};
}

// How a scale or offset is kept: as f16, never infinite, or as it is until a second level of scales is found.
struct AsF16 {
  static HWY_INLINE FitVec Round(FitVec x) {
    const FitTag d;
    const FitVec most = hn::Set(d, 65504.0f);
    return Widen(F16(), d, Narrow(F16(), d, hn::Min(hn::Max(x, hn::Neg(most)), most)));
  }
};
struct AsF32 {
  static HWY_INLINE FitVec Round(FitVec x) { return x; }
};

// 1 / d; 0 where d is too small for that, and every code becomes the one nearest to 0.
HWY_INLINE FitVec Inverse(FitVec x) {
  const FitTag d;
  return hn::IfThenElseZero(hn::Ge(hn::Abs(x), hn::Set(d, 0x1p-126f)), hn::Div(hn::Set(d, 1.0f), x));
}

// ---- x ~ d q, q a value of `Book` ----
//
// Book::targets: a candidate's scale puts the element of largest magnitude there. Book::Nearest: the value nearest to
// x / d. The best scale for given values is sum(x q) / sum(q q), and the squared error is then below that of d = 0 by
// d (2 sum(x q) - d sum(q q)). Values and scale are chosen in turn, Book::passes times.

// Whole numbers.
template <int low_, int high_>
struct Whole {
  static constexpr int low = low_, high = high_;
  static HWY_INLINE FitVec Nearest(FitVec x) {
    const FitTag d;
    return hn::Round(hn::Min(hn::Max(x, hn::Set(d, low)), hn::Set(d, high)));
  }
};

struct ScaleFit {
  float d;
  float qq;  // sum(q q)
};

// `weights`, where not null, weigh the errors: [n], not negative.
template <class Book, class Store, bool weighted = false>
HWY_INLINE ScaleFit FitScale(const float* x, int n, const float* weights = nullptr) {
  const FitTag d;
  const FitVec extreme = hn::Set(d, RangeOf(x, n).extreme());
  Lanes16 scale = LoadLanes(Book::targets), best_scale = Broadcast(0), best_gain = Broadcast(0), best_qq = Broadcast(0);
#pragma GCC unroll 4
  for (FitVec& s : scale.part) s = Store::Round(hn::Div(extreme, s));
  for (int pass = 0; pass < Book::passes; ++pass) {
    Lanes16 inverse = scale, xq = Broadcast(0), qq = Broadcast(0);
#pragma GCC unroll 4
    for (FitVec& v : inverse.part) v = Inverse(v);
    for (int i = 0; i < n; ++i) {
      const FitVec xi = hn::Set(d, x[i]);
#pragma GCC unroll 4
      for (int j = 0; j < kFitParts; ++j) {
        const FitVec q = Book::Nearest(hn::Mul(xi, inverse.part[j]));
        const FitVec wq = weighted ? hn::Mul(q, hn::Set(d, weights[i])) : q;
        xq.part[j] = hn::Add(xq.part[j], hn::Mul(xi, wq));
        qq.part[j] = hn::Add(qq.part[j], hn::Mul(q, wq));
      }
    }
#pragma GCC unroll 4
    for (int j = 0; j < kFitParts; ++j) {
      const FitVec a = xq.part[j], b = qq.part[j];
      const FitVec s = Store::Round(hn::IfThenElseZero(hn::Gt(b, hn::Zero(d)), hn::Div(a, b)));
      const FitVec gain = hn::Mul(s, hn::Sub(hn::Add(a, a), hn::Mul(s, b)));
      const auto better = hn::Gt(gain, best_gain.part[j]);
      best_gain.part[j] = hn::IfThenElse(better, gain, best_gain.part[j]);
      best_scale.part[j] = hn::IfThenElse(better, s, best_scale.part[j]);
      best_qq.part[j] = hn::IfThenElse(better, b, best_qq.part[j]);
      scale.part[j] = s;
    }
  }
  float scales[kCandidates], gains[kCandidates], qqs[kCandidates];
  StoreLanes(best_scale, scales);
  StoreLanes(best_gain, gains);
  StoreLanes(best_qq, qqs);
  int best = 0;
  for (int j = 1; j < kCandidates; ++j) best = gains[j] > gains[best] ? j : best;
  return {scales[best], qqs[best]};
}

// ---- of sixteen scales and offsets, the best ----

struct Choice {
  float error, q, qq, xq;  // sums of squared errors, of values, their squares, their products with x
  int index;
};

// x ~ scales[c] q - offsets[c].
template <class Book>
HWY_INLINE Choice BestOf(const float* x, int n, const float* scales, const float* offsets) {
  const FitTag d;
  const Lanes16 scale = LoadLanes(scales), offset = LoadLanes(offsets);
  Lanes16 inverse = scale, error = Broadcast(0), sq = error, sqq = error, sxq = error;
#pragma GCC unroll 4
  for (FitVec& v : inverse.part) v = Inverse(v);
  for (int i = 0; i < n; ++i) {
    const FitVec xi = hn::Set(d, x[i]);
#pragma GCC unroll 4
    for (int j = 0; j < kFitParts; ++j) {
      const FitVec t = hn::Add(xi, offset.part[j]);
      const FitVec q = Book::Nearest(hn::Mul(t, inverse.part[j]));
      const FitVec r = hn::Sub(t, hn::Mul(q, scale.part[j]));
      error.part[j] = hn::Add(error.part[j], hn::Mul(r, r));
      sq.part[j] = hn::Add(sq.part[j], q);
      sqq.part[j] = hn::Add(sqq.part[j], hn::Mul(q, q));
      sxq.part[j] = hn::Add(sxq.part[j], hn::Mul(xi, q));
    }
  }
  float errors[kCandidates], q[kCandidates], qq[kCandidates], xq[kCandidates];
  StoreLanes(error, errors);
  StoreLanes(sq, q);
  StoreLanes(sqq, qq);
  StoreLanes(sxq, xq);
  int best = 0;
  for (int c = 1; c < kCandidates; ++c) best = errors[c] < errors[best] ? c : best;
  return {errors[best], q[best], qq[best], xq[best], best};
}

// ---- x ~ d q + m, q whole in [0, Book::top] ----
//
// A candidate cuts the range of x into Book::cuts steps, of which it keeps `top`: those from the low end, from the high
// end, or between (Book::anchors, 0 to 1). Codes, and the best line for them, are found in turn, Book::passes times.

struct LineFit {
  float d, m;
};

// Store::Round is for d and m. `below_zero`: m must not be above 0.
template <class Book, class Store, bool below_zero>
HWY_INLINE LineFit FitLine(const float* x, int n) {
  const FitTag d;
  Range range = RangeOf(x, n);
  if (below_zero && range.low > 0) range.low = 0;
  float mean = 0;
  for (int i = 0; i < n; ++i) mean += x[i];
  mean /= static_cast<float>(n);
  const FitVec span = hn::Set(d, range.high - range.low), low = hn::Set(d, range.low);
  const FitVec middle = hn::Set(d, mean), count = hn::Set(d, static_cast<float>(n)), top = hn::Set(d, Book::top);
  float scales[kCandidates], offsets[kCandidates], errors[kCandidates];
  LineFit best = {};
  float best_error = -1;
  for (int batch = 0; batch < Book::batches; ++batch) {
    Lanes16 scale = LoadLanes(Book::cuts + batch * kCandidates);
    Lanes16 offset = LoadLanes(Book::anchors + batch * kCandidates);
#pragma GCC unroll 4
    for (int j = 0; j < kFitParts; ++j) {
      const FitVec s = hn::Div(span, scale.part[j]);
      const FitVec m = hn::Add(low, hn::Mul(offset.part[j], hn::Sub(span, hn::Mul(top, s))));
      scale.part[j] = Store::Round(s);
      offset.part[j] = Store::Round(below_zero ? hn::Min(m, hn::Zero(d)) : m);
    }
    Lanes16 best_scale = scale, best_offset = offset, least = Broadcast(__builtin_huge_valf());
    for (int pass = 0;; ++pass) {
      // Sums of q, of q q, of (x - mean) q and of squared errors, under the codes of this scale and offset.
      Lanes16 sq = Broadcast(0), sqq = sq, sxq = sq, error = sq, inverse = scale, shift = offset;
#pragma GCC unroll 4
      for (int j = 0; j < kFitParts; ++j) {
        inverse.part[j] = Inverse(scale.part[j]);
        shift.part[j] = hn::Sub(offset.part[j], middle);
      }
      for (int i = 0; i < n; ++i) {
        const FitVec y = hn::Set(d, x[i] - mean);
#pragma GCC unroll 4
        for (int j = 0; j < kFitParts; ++j) {
          const FitVec t = hn::Sub(y, shift.part[j]);
          const FitVec q = hn::Round(hn::Min(hn::Max(hn::Mul(t, inverse.part[j]), hn::Zero(d)), top));
          const FitVec r = hn::Sub(t, hn::Mul(q, scale.part[j]));
          sq.part[j] = hn::Add(sq.part[j], q);
          sqq.part[j] = hn::Add(sqq.part[j], hn::Mul(q, q));
          sxq.part[j] = hn::Add(sxq.part[j], hn::Mul(y, q));
          error.part[j] = hn::Add(error.part[j], hn::Mul(r, r));
        }
      }
#pragma GCC unroll 4
      for (int j = 0; j < kFitParts; ++j) {
        const auto better = hn::Lt(error.part[j], least.part[j]);
        least.part[j] = hn::IfThenElse(better, error.part[j], least.part[j]);
        best_scale.part[j] = hn::IfThenElse(better, scale.part[j], best_scale.part[j]);
        best_offset.part[j] = hn::IfThenElse(better, offset.part[j], best_offset.part[j]);
      }
      if (pass == Book::passes) break;
#pragma GCC unroll 4
      for (int j = 0; j < kFitParts; ++j) {
        // The slope is sum(y q) / sum((q - mean q)^2), since y sums to 0; then the best slope for the rounded offset.
        const FitVec mean_q = hn::Div(sq.part[j], count);
        const FitVec spread = hn::Sub(sqq.part[j], hn::Mul(sq.part[j], mean_q));
        const FitVec slope = hn::IfThenElseZero(hn::Gt(spread, hn::Zero(d)), hn::Div(sxq.part[j], spread));
        FitVec m = Store::Round(hn::Sub(middle, hn::Mul(slope, mean_q)));
        if (below_zero) m = hn::Min(m, hn::Zero(d));
        const FitVec xq = hn::Sub(sxq.part[j], hn::Mul(hn::Sub(m, middle), sq.part[j]));
        offset.part[j] = m;
        scale.part[j] = Store::Round(hn::IfThenElseZero(hn::Gt(sqq.part[j], hn::Zero(d)), hn::Div(xq, sqq.part[j])));
      }
    }
    StoreLanes(best_scale, scales);
    StoreLanes(best_offset, offsets);
    StoreLanes(least, errors);
    for (int j = 0; j < kCandidates; ++j) {
      if (best_error >= 0 && !(errors[j] < best_error)) continue;
      best_error = errors[j];
      best = {scales[j], offsets[j]};
    }
  }
  return best;
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::cpu
HWY_AFTER_NAMESPACE();

#endif
