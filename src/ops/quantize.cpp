// SPDX-License-Identifier: Apache-2.0
#include "ops/quantize.h"

#include "ops/weights.h"
#include "shared/weights/weights.h"

namespace fovea {

namespace {

// Those of weights without f32, f16 and bf16.
template <class... Blocks>
struct TypesOf {
  int values[1 + sizeof...(Blocks)] = {static_cast<int>(Dtype::e4m3), static_cast<int>(Blocks::kType)...};
  constexpr explicit TypesOf(BlockList<Blocks...>) {}
};
constexpr TypesOf kQuantizedTypes{BlockTypes()};

}  // namespace

Status QuantizeOp::check(const Params& p, const Caps& caps, Spec& spec) {
  FOVEA_TRY(check_struct("params", &p));
  const Place where = place(caps);
  FOVEA_TRY(check_tensor("x", p.x, kFloatTypes, 2, 2, where));
  FOVEA_TRY(check_tensor("out", p.out, kQuantizedTypes.values, 2, 2, where));
  FOVEA_TRY(check_same_shape("out", p.out, "x", p.x));
  FOVEA_TRY(check_writable("out", p.out));
  WeightScale scale_kind{};
  FOVEA_TRY(check_weights({"out", "scale"}, p.out, p.scale, where, scale_kind));
  if (present(p.scale)) {
    FOVEA_TRY(check_tensor("scale", p.scale, kF32, 1, 2, where));
    FOVEA_TRY(check_writable("scale", p.scale));
  }
  spec = {.x = dtype(p.x), .out = dtype(p.out), .scale_kind = scale_kind, .n = p.x.shape[0], .k = p.x.shape[1]};
  return {};
}

Status QuantizeOp::fits(const Spec& planned, const Spec& now) {
  FOVEA_TRY(at_most_planned("x.shape[0]", now.n, planned.n));
  FOVEA_TRY(as_planned("x.shape[1]", now.k, planned.k));
  Spec same = now;
  same.n = planned.n;
  return same == planned ? Status() : other_than_planned("quantize");
}

Status QuantizeOp::bind(const Params& p, const Spec& spec, Args& args) {
  FOVEA_TRY(check_data("x", p.x));
  FOVEA_TRY(check_data("out", p.out));
  FOVEA_TRY(check_data("scale", p.scale));
  args = {.spec = spec, .x = view(p.x), .out = view(p.out), .scale = view(p.scale)};
  return {};
}

}  // namespace fovea
