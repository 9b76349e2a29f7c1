// SPDX-License-Identifier: Apache-2.0
#include "ops/matmul.h"

#include "ops/weights.h"

namespace fovea {

Status MatmulOp::check(const Params& p, const Caps& caps, Spec& spec) {
  FOVEA_TRY(check_struct("params", &p));
  const Place where = place(caps);
  FOVEA_TRY(check_tensor("x", p.x, kFloatTypes, 2, 2, where));
  WeightScale scale_kind{};
  FOVEA_TRY(check_weights({"w", "w_scale"}, p.w, p.w_scale, where, scale_kind));
  FOVEA_TRY(check_dim("w", p.w, 1, p.x.shape[1], "x.shape[1]"));
  if (present(p.bias)) {
    FOVEA_TRY(check_tensor("bias", p.bias, kFloatTypes, 1, 1, where));
    FOVEA_TRY(check_dim("bias", p.bias, 0, p.w.shape[0], "w.shape[0]"));
  }
  FOVEA_TRY(check_tensor("out", p.out, kFloatTypes, 2, 2, where));
  FOVEA_TRY(check_dim("out", p.out, 0, p.x.shape[0], "x.shape[0]"));
  FOVEA_TRY(check_dim("out", p.out, 1, p.w.shape[0], "w.shape[0]"));
  FOVEA_TRY(check_writable("out", p.out));
  spec = {.x = dtype(p.x),
          .w = dtype(p.w),
          .w_scale = dtype(p.w_scale),
          .scale_kind = scale_kind,
          .bias = dtype(p.bias),
          .out = dtype(p.out),
          .m = p.x.shape[0],
          .n = p.w.shape[0],
          .k = p.x.shape[1]};
  return {};
}

Status MatmulOp::fits(const Spec& planned, const Spec& now) {
  FOVEA_TRY(at_most_planned("x.shape[0]", now.m, planned.m));
  FOVEA_TRY(as_planned("w.shape[0]", now.n, planned.n));
  FOVEA_TRY(as_planned("x.shape[1]", now.k, planned.k));
  Spec same = now;
  same.m = planned.m;
  return same == planned ? Status() : other_than_planned("matmul");
}

Status MatmulOp::bind(const Params& p, const Spec& spec, Args& args) {
  FOVEA_TRY(check_data("x", p.x));
  FOVEA_TRY(check_data("w", p.w));
  FOVEA_TRY(check_data("w_scale", p.w_scale));
  FOVEA_TRY(check_data("bias", p.bias));
  FOVEA_TRY(check_data("out", p.out));
  args = {.spec = spec,
          .x = view(p.x),
          .w = view(p.w),
          .w_scale = view(p.w_scale),
          .bias = view(p.bias),
          .out = view(p.out)};
  return {};
}

}  // namespace fovea
