// SPDX-License-Identifier: Apache-2.0
#include "ops/norm.h"

#include <cmath>

namespace fovea {

namespace {

Status check_row_vector(const char* name, const fovea_tensor& t, const fovea_norm_params& p, Place where) {
  if (!present(t)) return {};
  FOVEA_TRY(check_tensor(name, t, kFloatTypes, 1, 1, where));
  return check_dim(name, t, 0, p.x.shape[p.x.rank - 1], "the last dimension of x");
}

Status check_like_x(const char* name, const fovea_tensor& t, const fovea_norm_params& p, Place where) {
  FOVEA_TRY(check_tensor(name, t, kFloatTypes, 2, 4, where));
  return check_same_shape(name, t, "x", p.x);
}

Status check_options(const fovea_norm_params& p) {
  if (p.kind < FOVEA_NORM_RMS || p.kind > FOVEA_NORM_L2) {
    return invalid_value("kind", p.kind, "must be FOVEA_NORM_RMS, FOVEA_NORM_LAYER or FOVEA_NORM_L2");
  }
  if (p.gate_kind < FOVEA_GATE_NONE || p.gate_kind > FOVEA_GATE_SIGMOID) {
    return invalid_value("gate_kind", p.gate_kind, "must be FOVEA_GATE_NONE, FOVEA_GATE_SILU or FOVEA_GATE_SIGMOID");
  }
  if (!(p.eps >= 0) || std::isinf(p.eps))
    return invalid_value("eps", format_float(p.eps), "must be finite and not negative");
  if (!std::isfinite(p.weight_offset)) {
    return invalid_value("weight_offset", format_float(p.weight_offset), "must be finite");
  }
  if (p.gate_first != 0 && p.gate_first != 1) return invalid_value("gate_first", p.gate_first, "must be 0 or 1");
  if (p.gate_first && p.gate_kind == FOVEA_GATE_NONE) return invalid_value("gate_first", 1, "needs a gate");
  if (p.kind == FOVEA_NORM_L2) FOVEA_TRY(check_absent("weight", p.weight, "the L2 norm has no weight"));
  if (p.kind != FOVEA_NORM_LAYER) FOVEA_TRY(check_absent("bias", p.bias, "only the layer norm has a bias"));
  if (p.weight_offset != 0.0f && !present(p.weight)) {
    return invalid_value("weight_offset", format_float(p.weight_offset), "needs a weight");
  }
  return {};
}

}  // namespace

Status NormOp::check(const Params& p, const Caps& caps, Spec& spec) {
  FOVEA_TRY(check_struct("params", &p));
  const Place where = place(caps);
  FOVEA_TRY(check_options(p));
  FOVEA_TRY(check_tensor("x", p.x, kFloatTypes, 2, 4, where));
  const int64_t n = p.x.shape[p.x.rank - 1];
  if (n == 0) return invalid_value("x.shape", shape_text(p.x), "the last dimension must not be 0");
  FOVEA_TRY(check_like_x("out", p.out, p, where));
  FOVEA_TRY(check_writable("out", p.out));
  FOVEA_TRY(check_row_vector("weight", p.weight, p, where));
  FOVEA_TRY(check_row_vector("bias", p.bias, p, where));
  if (present(p.residual)) FOVEA_TRY(check_like_x("residual", p.residual, p, where));
  if (present(p.residual_out)) {
    if (!present(p.residual)) return invalid_value("residual_out", "given", "needs residual");
    FOVEA_TRY(check_like_x("residual_out", p.residual_out, p, where));
    FOVEA_TRY(check_writable("residual_out", p.residual_out));
  }
  if (p.gate_kind == FOVEA_GATE_NONE) {
    FOVEA_TRY(check_absent("gate", p.gate, "gate_kind is FOVEA_GATE_NONE"));
  } else {
    FOVEA_TRY(check_like_x("gate", p.gate, p, where));
  }
  spec = {.kind = static_cast<NormKind>(p.kind),
          .gate_kind = static_cast<GateKind>(p.gate_kind),
          .gate_first = p.gate_first,
          .has_weight = present(p.weight),
          .has_bias = present(p.bias),
          .has_residual = present(p.residual),
          .has_residual_out = present(p.residual_out),
          .x = dtype(p.x),
          .out = dtype(p.out),
          .rows = elements(p.x) / n,
          .n = n};
  return {};
}

Status NormOp::fits(const Spec& planned, const Spec& now) {
  FOVEA_TRY(at_most_planned("rows of x", now.rows, planned.rows));
  FOVEA_TRY(as_planned("the last dimension of x", now.n, planned.n));
  Spec same = now;
  same.rows = planned.rows;
  return same == planned ? Status() : other_than_planned("norm");
}

Status NormOp::bind(const Params& p, const Spec& spec, Args& args) {
  FOVEA_TRY(check_data("x", p.x));
  FOVEA_TRY(check_data("out", p.out));
  FOVEA_TRY(check_data("weight", p.weight));
  FOVEA_TRY(check_data("bias", p.bias));
  FOVEA_TRY(check_data("residual", p.residual));
  FOVEA_TRY(check_data("residual_out", p.residual_out));
  FOVEA_TRY(check_data("gate", p.gate));
  args = {.spec = spec,
          .x = view_of_rank(p.x, 4),
          .out = view_of_rank(p.out, 4),
          .residual = view_of_rank(p.residual, 4),
          .residual_out = view_of_rank(p.residual_out, 4),
          .gate = view_of_rank(p.gate, 4),
          .weight = view(p.weight),
          .bias = view(p.bias),
          .eps = p.eps,
          .weight_offset = p.weight_offset};
  return {};
}

}  // namespace fovea
