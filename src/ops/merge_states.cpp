// SPDX-License-Identifier: Apache-2.0
#include "ops/merge_states.h"

#include <algorithm>
#include <cstdio>

namespace fovea {

namespace {

static_assert(kMaxParts == FOVEA_MAX_PARTS);

// "outs[3]", without the heap.
struct PartName {
  PartName(const char* array, int i) { std::snprintf(text, sizeof text, "%s[%d]", array, i); }
  char text[24];
};

// An lse: out's shape without d.
Status check_lse(const char* name, const fovea_tensor& t, const fovea_tensor& out, Place where) {
  FOVEA_TRY(check_tensor(name, t, kF32, out.rank - 1, out.rank - 1, where, LastStride::any));
  for (int i = 0; i + 1 < out.rank; ++i) FOVEA_TRY(check_dim(name, t, i, out.shape[i], "as out"));
  return {};
}

Status check_parts(const fovea_merge_states_params& p, Place where, MergeStatesSpec& spec) {
  if (p.parts < 1 || p.parts > FOVEA_MAX_PARTS) {
    return invalid_value("parts", p.parts, "must be 1 to " + std::to_string(FOVEA_MAX_PARTS));
  }
  if (p.outs == nullptr) return invalid_value("outs", "null", "must point to `parts` tensors");
  if (p.lses == nullptr) return invalid_value("lses", "null", "must point to `parts` tensors");
  for (int i = 0; i < p.parts; ++i) {
    const PartName out("outs", i), lse("lses", i);
    FOVEA_TRY(check_tensor(out.text, p.outs[i], kFloatTypes, p.out.rank, p.out.rank, where));
    FOVEA_TRY(check_same_shape(out.text, p.outs[i], "out", p.out));
    FOVEA_TRY(check_lse(lse.text, p.lses[i], p.out, where));
    spec.outs[i] = dtype(p.outs[i]);
  }
  return {};
}

}  // namespace

Status MergeStatesOp::check(const Params& p, const Caps& caps, Spec& spec) {
  FOVEA_TRY(check_struct("params", &p));
  const Place where = place(caps);
  spec = {};
  FOVEA_TRY(check_tensor("out", p.out, kFloatTypes, 3, 4, where));
  FOVEA_TRY(check_writable("out", p.out));
  const int64_t heads = p.out.shape[p.out.rank - 2], d = p.out.shape[p.out.rank - 1];
  if (heads < 1 || d < 1) return invalid_value("out.shape", shape_text(p.out), "heads and d must be at least 1");
  FOVEA_TRY(check_parts(p, where, spec));
  if (present(p.lse)) {
    FOVEA_TRY(check_lse("lse", p.lse, p.out, where));
    FOVEA_TRY(check_writable("lse", p.lse));
  }
  if (present(p.sinks)) {
    FOVEA_TRY(check_tensor("sinks", p.sinks, kF32, 1, 1, where, LastStride::any));
    FOVEA_TRY(check_dim("sinks", p.sinks, 0, heads, "heads"));
  }
  spec.parts = p.parts;
  spec.has_lse = present(p.lse);
  spec.has_sinks = present(p.sinks);
  spec.padded = p.out.rank == 4;
  spec.out = dtype(p.out);
  spec.batch = spec.padded ? p.out.shape[0] : 1;
  spec.tokens = p.out.shape[p.out.rank - 3];
  spec.heads = heads;
  spec.d = d;
  return {};
}

Status MergeStatesOp::fits(const Spec& planned, const Spec& now) {
  FOVEA_TRY(at_most_planned("batch", now.batch, planned.batch));
  FOVEA_TRY(at_most_planned("tokens", now.tokens, planned.tokens));
  FOVEA_TRY(as_planned("parts", now.parts, planned.parts));
  Spec same = now;
  same.batch = planned.batch;
  same.tokens = planned.tokens;
  return same == planned ? Status() : other_than_planned("merge_states");
}

Status MergeStatesOp::bind(const Params& p, const Spec& spec, Args& args) {
  FOVEA_TRY(check_data("out", p.out));
  FOVEA_TRY(check_data("lse", p.lse));
  FOVEA_TRY(check_data("sinks", p.sinks));
  args.spec = spec;
  args.out = view_of_rank(p.out, 4);
  args.lse = view_of_rank(p.lse, 3);
  args.sinks = view(p.sinks);
  for (int i = 0; i < spec.parts; ++i) {
    FOVEA_TRY(check_data(PartName("outs", i).text, p.outs[i]));
    FOVEA_TRY(check_data(PartName("lses", i).text, p.lses[i]));
    args.outs[i] = view_of_rank(p.outs[i], 4);
    args.lses[i] = view_of_rank(p.lses[i], 3);
  }
  return {};
}

}  // namespace fovea
