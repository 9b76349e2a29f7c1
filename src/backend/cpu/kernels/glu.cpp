// SPDX-License-Identifier: Apache-2.0
// out = act(gate) * up, element by element: no element depends on its neighbours, nor on how rows are cut.
//
//   silu            g / (1 + exp(-g))
//   gelu_tanh       g (1 + tanh(sqrt(2 / pi) (g + 0.044715 g^3))) / 2
//   gelu_erf        g (1 + erf(g / sqrt 2)) / 2
//   clamped_swiglu  g' / (1 + exp(-alpha g')) (u' + 1), g' = min(g, limit), u' = clamp(u, -limit, limit)
#include "backend/cpu/kernels/glu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/glu.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "backend/cpu/kernels/lanes-inl.h"
#include "backend/cpu/kernels/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::cpu {
namespace HWY_NAMESPACE {

HWY_NOINLINE F32Vec Activate(const GluArgs& a, F32Vec g, F32Vec u) {
  const F32Tag d;
  switch (a.spec.kind) {
    case GluKind::silu:
      return hn::Mul(Silu(g), u);
    case GluKind::gelu_tanh:
      return hn::Mul(GeluTanh(g), u);
    case GluKind::gelu_erf:
      return hn::Mul(Gelu(g), u);
    case GluKind::clamped_swiglu:
      break;
  }
  const F32Vec limit = hn::Set(d, a.limit);
  const F32Vec held = hn::IfThenElse(hn::Gt(g, limit), limit, g);  // NaN stays
  return hn::Mul(Swish(held, a.alpha), hn::Add(Clamp(d, u, -a.limit, a.limit), hn::Set(d, 1.0f)));
}

void GluRow(const GluArgs& a, i64_t token, i64_t first, i64_t count) {
  const char *gate = row(a.gate, token, first), *up = row(a.up, token, first);
  char* out = row(a.out, token, first);
  ForLanes(count, [&](i64_t i, size_t n) {
    const F32Vec g = StridedLanes(a.gate.dtype, gate, i, n, a.gate.stride[1]);
    const F32Vec u = StridedLanes(a.up.dtype, up, i, n, a.up.stride[1]);
    PutLanes(a.out.dtype, Activate(a, g, u), out, i, n);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::cpu {

HWY_EXPORT(GluRow);

void glu_row(const Isa& isa, const GluArgs& args, i64_t token, i64_t first, i64_t count) {
  FOVEA_CPU_KERNEL(isa, GluRow)(args, token, first, count);
}

}  // namespace fovea::cpu
#endif
