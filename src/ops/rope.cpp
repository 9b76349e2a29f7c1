// SPDX-License-Identifier: Apache-2.0
#include "ops/rope.h"

#include "ops/rope_config.h"

namespace fovea {

Status RopeOp::check(const Params& p, const Caps& caps, Spec& spec) {
  FOVEA_TRY(check_struct("params", &p));
  const Place where = place(caps);
  FOVEA_TRY(check_tensor("x", p.x, kFloatTypes, 3, 3, where));
  FOVEA_TRY(check_tensor("out", p.out, kFloatTypes, 3, 3, where));
  FOVEA_TRY(check_same_shape("out", p.out, "x", p.x));
  FOVEA_TRY(check_writable("out", p.out));
  spec = {.rotary = {},
          .x = dtype(p.x),
          .out = dtype(p.out),
          .tokens = p.x.shape[0],
          .heads = p.x.shape[1],
          .d = p.x.shape[2]};
  FOVEA_TRY(check_rope_config("config", p.config, spec.d, where, spec.rotary));
  return check_positions(p.positions, spec.tokens, spec.rotary, where);
}

Status RopeOp::fits(const Spec& planned, const Spec& now) {
  FOVEA_TRY(at_most_planned("x.shape[0]", now.tokens, planned.tokens));
  FOVEA_TRY(as_planned("x.shape[1]", now.heads, planned.heads));
  FOVEA_TRY(as_planned("x.shape[2]", now.d, planned.d));
  if (now.rotary != planned.rotary) {
    return {FOVEA_INVALID_VALUE, "config: differs from the one the plan was made for"};
  }
  return now.x == planned.x && now.out == planned.out ? Status() : other_than_planned("rope");
}

Status RopeOp::bind(const Params& p, const Spec& spec, Args& args) {
  FOVEA_TRY(check_data("x", p.x));
  FOVEA_TRY(check_data("out", p.out));
  FOVEA_TRY(check_in_place("out", p.out, "x", p.x));
  args = {.spec = spec, .x = view(p.x), .out = view(p.out), .rotary = {}};
  return bind_rotary("config", *p.config, p.positions, args.rotary);
}

}  // namespace fovea
