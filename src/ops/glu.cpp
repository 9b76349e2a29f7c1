// SPDX-License-Identifier: Apache-2.0
#include "ops/glu.h"

#include <cmath>

namespace fovea {

namespace {

Status check_options(const fovea_glu_params& p) {
  if (p.kind < FOVEA_GLU_SILU || p.kind > FOVEA_GLU_CLAMPED_SWIGLU) {
    return invalid_value("kind", p.kind,
                         "must be FOVEA_GLU_SILU, FOVEA_GLU_GELU_TANH, FOVEA_GLU_GELU_ERF or FOVEA_GLU_CLAMPED_SWIGLU");
  }
  const fovea_glu_params defaults;
  if (p.kind == FOVEA_GLU_CLAMPED_SWIGLU) {
    if (!std::isfinite(p.alpha)) return invalid_value("alpha", format_float(p.alpha), "must be finite");
    if (!(p.limit >= 0)) return invalid_value("limit", format_float(p.limit), "must not be negative");
    return {};
  }
  const char* only = "only the clamped swiglu has it: leave the default";
  if (p.alpha != defaults.alpha) return invalid_value("alpha", format_float(p.alpha), only);
  if (p.limit != defaults.limit) return invalid_value("limit", format_float(p.limit), only);
  return {};
}

}  // namespace

Status GluOp::check(const Params& p, const Caps& caps, Spec& spec) {
  FOVEA_TRY(check_struct("params", &p));
  const Place where = place(caps);
  FOVEA_TRY(check_options(p));
  FOVEA_TRY(check_tensor("gate", p.gate, kFloatTypes, 2, 2, where, LastStride::any));
  FOVEA_TRY(check_tensor("up", p.up, kFloatTypes, 2, 2, where, LastStride::any));
  FOVEA_TRY(check_same_shape("up", p.up, "gate", p.gate));
  FOVEA_TRY(check_tensor("out", p.out, kFloatTypes, 2, 2, where));
  FOVEA_TRY(check_same_shape("out", p.out, "gate", p.gate));
  FOVEA_TRY(check_writable("out", p.out));
  spec = {.kind = static_cast<GluKind>(p.kind),
          .gate = dtype(p.gate),
          .up = dtype(p.up),
          .out = dtype(p.out),
          .tokens = p.gate.shape[0],
          .n = p.gate.shape[1]};
  return {};
}

Status GluOp::fits(const Spec& planned, const Spec& now) {
  FOVEA_TRY(at_most_planned("gate.shape[0]", now.tokens, planned.tokens));
  FOVEA_TRY(as_planned("gate.shape[1]", now.n, planned.n));
  Spec same = now;
  same.tokens = planned.tokens;
  return same == planned ? Status() : other_than_planned("glu");
}

Status GluOp::bind(const Params& p, const Spec& spec, Args& args) {
  FOVEA_TRY(check_data("gate", p.gate));
  FOVEA_TRY(check_data("up", p.up));
  FOVEA_TRY(check_data("out", p.out));
  args = {.spec = spec, .gate = view(p.gate), .up = view(p.up), .out = view(p.out), .alpha = p.alpha, .limit = p.limit};
  return {};
}

}  // namespace fovea
