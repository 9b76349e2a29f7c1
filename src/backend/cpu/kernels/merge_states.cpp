// SPDX-License-Identifier: Apache-2.0
// Merging of partial attention outputs, row by row:
//
//   M = max lse_i;   s = sum e^(lse_i - M) (+ e^(sink - M));   out = sum e^(lse_i - M) / s * out_i;   lse = M + ln s
//
// Weights are made in f64 and rounded once, so that one live part has weight 1 exactly. Parts of lse -inf are not read.
#include "backend/cpu/kernels/merge_states.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/merge_states.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "backend/cpu/kernels/convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::cpu {
namespace HWY_NAMESPACE {

// One row: its live parts and what each weighs.
struct Live {
  int count = 0;
  int part[kMaxParts];
  float weight[kMaxParts];
  float lse;
};

Live Weigh(const MergeStatesArgs& a, i64_t b, i64_t token, i64_t head) {
  constexpr double kNone = -__builtin_inf();
  const double sink = a.sinks.given() ? float_at(row(a.sinks, head), Dtype::f32) : kNone;
  Live live;
  double lses[kMaxParts], most = sink;
  for (int i = 0; i < a.spec.parts; ++i) {
    const double lse = float_at(row(a.lses[i], b, token, head), Dtype::f32);
    if (lse == kNone) continue;
    lses[live.count] = lse;
    live.part[live.count++] = i;
    if (!(lse <= most)) most = lse;
  }
  double sum = 0;
  for (int i = 0; i < live.count; ++i) sum += std::exp(lses[i] - most);
  if (sink != kNone) sum += std::exp(sink - most);
  for (int i = 0; i < live.count; ++i) live.weight[i] = static_cast<float>(std::exp(lses[i] - most) / sum);
  live.lse = static_cast<float>(sum == 0 ? kNone : most + std::log(sum));
  return live;
}

// `count` lanes of the merged row from dim i on.
F32Vec MergedLanes(const MergeStatesArgs& a, const Live& live, const char* const* from, i64_t i, size_t count) {
  const F32Tag d;
  F32Vec sum = hn::Zero(d);
  for (int p = 0; p < live.count; ++p) {
    const F32Vec x = WithFloatType(a.outs[live.part[p]].dtype, [&](auto type) HWY_ATTR {
      const char* at = from[p] + i * static_cast<i64_t>(sizeof(typename decltype(type)::Raw));
      return count == hn::Lanes(d) ? LoadF32(type, d, at) : LoadF32Part(type, d, at, count);
    });
    const F32Vec w = hn::Set(d, live.weight[p]);
    sum = p == 0 ? hn::Mul(x, w) : hn::MulAdd(x, w, sum);
  }
  return sum;
}

void MergeRow(const MergeStatesArgs& a, i64_t b, i64_t token, i64_t head) {
  const F32Tag d;
  const Live live = Weigh(a, b, token, head);
  const char* from[kMaxParts];
  for (int p = 0; p < live.count; ++p) from[p] = row(a.outs[live.part[p]], b, token, head);
  char* to = row(a.out, b, token, head);
  const i64_t lanes = static_cast<i64_t>(hn::Lanes(d));
  if (live.count == 1 && live.weight[0] == 1.0f && a.outs[live.part[0]].dtype == a.out.dtype) {
    if (to != from[0]) __builtin_memcpy(to, from[0], static_cast<size_t>(a.spec.d * a.out.block_bytes));
  } else {
    WithFloatType(a.out.dtype, [&](auto type) HWY_ATTR {
      // Every part's lanes are read before they are written: out may be one of them.
      for (i64_t i = 0; i < a.spec.d; i += lanes) {
        const size_t count = static_cast<size_t>(a.spec.d - i < lanes ? a.spec.d - i : lanes);
        const F32Vec x = MergedLanes(a, live, from, i, count);
        char* at = to + i * static_cast<i64_t>(sizeof(typename decltype(type)::Raw));
        if (count == hn::Lanes(d)) {
          StoreF32(type, d, x, at);
        } else {
          StoreF32Part(type, d, x, at, count);
        }
      }
    });
  }
  if (a.lse.given()) __builtin_memcpy(row(a.lse, b, token, head), &live.lse, sizeof live.lse);
}

void MergeRows(const MergeStatesArgs& a, i64_t first, i64_t last) {
  for (i64_t r = first; r < last; ++r) {
    MergeRow(a, r / a.spec.heads / a.spec.tokens, r / a.spec.heads % a.spec.tokens, r % a.spec.heads);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::cpu {

HWY_EXPORT(MergeRows);

void merge_rows(const Isa& isa, const MergeStatesArgs& args, i64_t first, i64_t last) {
  FOVEA_CPU_KERNEL(isa, MergeRows)(args, first, last);
}

}  // namespace fovea::cpu
#endif
