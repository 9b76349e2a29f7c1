// SPDX-License-Identifier: Apache-2.0
// The residual of speculative sampling (Leviathan, Kalman, Matias, ICML 2023): with target p and draft q, a rejected
// draft leaves max(p - q, 0). Weights are f32 and not normalised; products are not fused and sums have one order, so
// all instruction sets leave the same.
#include "backend/cpu/kernels/verify.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/verify.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "backend/cpu/kernels/lanes-inl.h"
#include "backend/cpu/kernels/sample_cut-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::cpu {
namespace HWY_NAMESPACE {

double VerifyLoad(const View& probs, i64_t r, const SampleWorkspace& to) {
  const F32Tag d;
  const char* p = row_or_null(probs, r);
  bool good = true;
  ForLanes(probs.shape[1], [&](i64_t i, size_t count) {
    const F32Vec x = Lanes(probs.dtype, p, i, count);
    good &= hn::AllTrue(d, hn::Ge(x, hn::Zero(d)));  // lanes after count are 0
    hn::StoreU(x, d, to.logits + i);
  });
  const double total = Total(to.logits, probs.shape[1]);
  return good && total > 0 && total < static_cast<double>(__builtin_inff()) ? total : -1;
}

void VerifySubtract(SampleKept& kept, const SampleWorkspace& to, double draft_total) {
  const auto scale = static_cast<float>(kept.total / draft_total);
  for (i64_t i = 0; i < kept.n; ++i) {
    const float left = to.weights[i] - to.logits[to.id(kept, i)] * scale;
    to.weights[i] = left > 0 ? left : 0;
  }
  kept.total = Total(to.weights, kept.n);
}

void VerifyRemove(SampleKept& kept, const SampleWorkspace& to, i64_t entry) {
  to.weights[entry] = 0;
  kept.total = Total(to.weights, kept.n);
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::cpu {

HWY_EXPORT(VerifyLoad);
HWY_EXPORT(VerifySubtract);
HWY_EXPORT(VerifyRemove);

double verify_load(const Isa& isa, const View& probs, i64_t row, const SampleWorkspace& to) {
  return FOVEA_CPU_KERNEL(isa, VerifyLoad)(probs, row, to);
}
void verify_subtract(const Isa& isa, SampleKept& kept, const SampleWorkspace& to, double draft_total) {
  FOVEA_CPU_KERNEL(isa, VerifySubtract)(kept, to, draft_total);
}
void verify_remove(const Isa& isa, SampleKept& kept, const SampleWorkspace& to, i64_t entry) {
  FOVEA_CPU_KERNEL(isa, VerifyRemove)(kept, to, entry);
}

}  // namespace fovea::cpu
#endif
