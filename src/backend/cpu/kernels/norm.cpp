// SPDX-License-Identifier: Apache-2.0
// Norms of rows, two or three passes over a row that stays in the first cache level.
//
//   rms    y = x / sqrt(mean(x^2) + eps) * (w + offset)
//   layer  y = (x - mean) / sqrt(mean((x - mean)^2) + eps) * (w + offset) + b
//   l2     y = x / sqrt(sum(x^2) + eps)
//
// x is x + residual where given; the gate multiplies x (gate_first) or y. A row whose root is 0 (eps 0 and nothing but
// zeros below it) is divided by nothing: its x - mean is 0 and stays 0. Sums are f32 in vector lanes, so a row's bits
// depend on the width of the instruction set and on nothing else.
#include "backend/cpu/kernels/norm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/norm.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "backend/cpu/kernels/lanes-inl.h"
#include "backend/cpu/kernels/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::cpu {
namespace HWY_NAMESPACE {

F32Vec Gate(GateKind kind, F32Vec g) {
  return kind == GateKind::silu ? Silu(g) : Sigmoid(g);
}

// One row: where its operands are.
struct Row {
  const char* x;
  const char* residual;
  const char* gate;
  char* residual_out;
  char* out;
};

// What is normalised: lanes of x, with residual and a first gate.
F32Vec Input(const NormArgs& a, const Row& row, i64_t i, size_t count) {
  F32Vec x = Lanes(a.x.dtype, row.x, i, count);
  if (row.residual) x = hn::Add(x, Lanes(a.residual.dtype, row.residual, i, count));
  if (a.spec.gate_first) x = hn::Mul(x, Gate(a.spec.gate_kind, Lanes(a.gate.dtype, row.gate, i, count)));
  return x;
}

void NormRow(const NormArgs& a, const Row& row) {
  const F32Tag d;
  const i64_t n = a.spec.n;
  const F32Vec length = hn::Set(d, static_cast<float>(n));
  F32Vec mean = hn::Zero(d);
  if (a.spec.kind == NormKind::layer) {
    F32Vec sum = hn::Zero(d);
    ForLanes(n, [&](i64_t i, size_t count) { sum = hn::Add(sum, Input(a, row, i, count)); });
    mean = hn::Div(hn::SumOfLanes(d, sum), length);
  }
  F32Vec squares = hn::Zero(d);
  ForLanes(n, [&](i64_t i, size_t count) {
    const F32Vec x = hn::IfThenElseZero(hn::FirstN(d, count), hn::Sub(Input(a, row, i, count), mean));
    squares = hn::MulAdd(x, x, squares);
  });
  F32Vec power = hn::SumOfLanes(d, squares);
  if (a.spec.kind != NormKind::l2) power = hn::Div(power, length);
  const F32Vec root = hn::Sqrt(hn::Add(power, hn::Set(d, a.eps)));
  const F32Vec inverse = hn::IfThenZeroElse(hn::Eq(root, hn::Zero(d)), hn::Div(hn::Set(d, 1.0f), root));
  ForLanes(n, [&](i64_t i, size_t count) {
    // out may be x and residual_out may be residual: read all of this step before writing.
    F32Vec y = hn::Mul(hn::Sub(Input(a, row, i, count), mean), inverse);
    if (a.weight.given()) {
      y = hn::Mul(y, hn::Add(Lanes(a.weight.dtype, static_cast<const char*>(a.weight.data), i, count),
                             hn::Set(d, a.weight_offset)));
    }
    if (a.bias.given()) y = hn::Add(y, Lanes(a.bias.dtype, static_cast<const char*>(a.bias.data), i, count));
    if (a.spec.gate_kind != GateKind::none && !a.spec.gate_first) {
      y = hn::Mul(y, Gate(a.spec.gate_kind, Lanes(a.gate.dtype, row.gate, i, count)));
    }
    if (row.residual_out) {
      const F32Vec x = Lanes(a.x.dtype, row.x, i, count), r = Lanes(a.residual.dtype, row.residual, i, count);
      PutLanes(a.residual_out.dtype, hn::Add(x, r), row.residual_out, i, count);
    }
    PutLanes(a.out.dtype, y, row.out, i, count);
  });
}

char* RowOf(const View& v, i64_t r) {
  if (!v.given()) return nullptr;
  const i64_t k = r % v.shape[2], j = r / v.shape[2] % v.shape[1], i = r / v.shape[2] / v.shape[1];
  return fovea::row(v, i, j, k);
}

void NormRows(const NormArgs& a, i64_t first, i64_t last) {
  for (i64_t r = first; r < last; ++r) {
    NormRow(a, {.x = RowOf(a.x, r),
                .residual = RowOf(a.residual, r),
                .gate = RowOf(a.gate, r),
                .residual_out = RowOf(a.residual_out, r),
                .out = RowOf(a.out, r)});
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::cpu {

HWY_EXPORT(NormRows);

void norm_rows(const Isa& isa, const NormArgs& args, i64_t first, i64_t last) {
  FOVEA_CPU_KERNEL(isa, NormRows)(args, first, last);
}

}  // namespace fovea::cpu
#endif
