// SPDX-License-Identifier: Apache-2.0
#include "ops/embed.h"

#include <cmath>

#include "ops/weights.h"

namespace fovea {

Status EmbedOp::check(const Params& p, const Caps& caps, Spec& spec) {
  FOVEA_TRY(check_struct("params", &p));
  const Place where = place(caps);
  if (!std::isfinite(p.scale)) return invalid_value("scale", format_float(p.scale), "must be finite");
  FOVEA_TRY(check_tensor("ids", p.ids, kIndexTypes, 1, 1, where));
  WeightScale scale_kind{};
  FOVEA_TRY(check_weights({"table", "table_scale"}, p.table, p.table_scale, where, scale_kind));
  FOVEA_TRY(check_tensor("out", p.out, kFloatTypes, 2, 2, where));
  FOVEA_TRY(check_dim("out", p.out, 0, p.ids.shape[0], "ids.shape[0]"));
  FOVEA_TRY(check_dim("out", p.out, 1, p.table.shape[1], "table.shape[1]"));
  FOVEA_TRY(check_writable("out", p.out));
  spec = {.ids = dtype(p.ids),
          .table = dtype(p.table),
          .table_scale = dtype(p.table_scale),
          .scale_kind = scale_kind,
          .out = dtype(p.out),
          .tokens = p.ids.shape[0],
          .vocab = p.table.shape[0],
          .n = p.table.shape[1]};
  return {};
}

Status EmbedOp::fits(const Spec& planned, const Spec& now) {
  FOVEA_TRY(at_most_planned("ids.shape[0]", now.tokens, planned.tokens));
  FOVEA_TRY(as_planned("table.shape[0]", now.vocab, planned.vocab));
  FOVEA_TRY(as_planned("table.shape[1]", now.n, planned.n));
  Spec same = now;
  same.tokens = planned.tokens;
  return same == planned ? Status() : other_than_planned("embed");
}

Status EmbedOp::bind(const Params& p, const Spec& spec, Args& args) {
  FOVEA_TRY(check_data("ids", p.ids));
  FOVEA_TRY(check_data("table", p.table));
  FOVEA_TRY(check_data("table_scale", p.table_scale));
  FOVEA_TRY(check_data("out", p.out));
  args = {.spec = spec,
          .ids = view(p.ids),
          .table = view(p.table),
          .table_scale = view(p.table_scale),
          .out = view(p.out),
          .scale = p.scale};
  return {};
}

}  // namespace fovea
