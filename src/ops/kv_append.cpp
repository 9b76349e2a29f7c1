// SPDX-License-Identifier: Apache-2.0
#include "ops/kv_append.h"

#include <cmath>

#include "ops/kv.h"
#include "ops/rope_config.h"

namespace fovea {

namespace {

Status check_rows(const char* name, const fovea_tensor& t, int64_t tokens, Place where) {
  FOVEA_TRY(check_tensor(name, t, kFloatTypes, 3, 3, where));
  FOVEA_TRY(check_dim(name, t, 0, tokens, "tokens"));
  if (t.shape[2] >= 1 && t.shape[2] <= kMaxAppendDim) return {};
  return invalid_value(std::string(name) + ".shape[2]", t.shape[2], "must be 1 to " + std::to_string(kMaxAppendDim));
}

Status check_kv_input(const char* name, const fovea_tensor& t, const KvSpec& kv, int64_t tokens, int64_t dims,
                      const char* dims_name, Place where) {
  FOVEA_TRY(check_rows(name, t, tokens, where));
  FOVEA_TRY(check_dim(name, t, 1, kv.heads, "kv.heads"));
  return check_dim(name, t, 2, dims, dims_name);
}

Status check_q(const fovea_kv_append_params& p, const KvSpec& kv, int64_t tokens, Place where) {
  if (!present(p.q)) {
    FOVEA_TRY(check_absent("q_out", p.q_out, "needs q"));
    return check_absent("q_norm_weight", p.q_norm_weight, "needs q");
  }
  FOVEA_TRY(check_rows("q", p.q, tokens, where));
  if (p.q.shape[2] <= kv.d_rope) {
    return invalid_value("q.shape[2]", p.q.shape[2], "must be above " + std::to_string(kv.d_rope) + " (kv.d_rope)");
  }
  FOVEA_TRY(check_tensor("q_out", p.q_out, kFloatTypes, 3, 3, where));
  FOVEA_TRY(check_same_shape("q_out", p.q_out, "q", p.q));
  return check_writable("q_out", p.q_out);
}

Status check_weight(const char* name, const fovea_tensor& t, int64_t dims, const char* why, Place where) {
  if (!present(t)) return {};
  FOVEA_TRY(check_tensor(name, t, kFloatTypes, 1, 1, where));
  return check_dim(name, t, 0, dims, why);
}

Status check_norm(const fovea_kv_append_params& p, const KvSpec& kv, Place where) {
  const char* k_dims = kv.d_rope ? "kv.d_k - kv.d_rope" : "kv.d_k";
  const char* q_dims = kv.d_rope ? "d_q - kv.d_rope" : "d_q";
  FOVEA_TRY(check_weight("k_norm_weight", p.k_norm_weight, kv.d_k - kv.d_rope, k_dims, where));
  FOVEA_TRY(check_weight("q_norm_weight", p.q_norm_weight, p.q.shape[2] - kv.d_rope, q_dims, where));
  if (!(p.norm_eps >= 0) || std::isinf(p.norm_eps)) {
    return invalid_value("norm_eps", format_float(p.norm_eps), "must be finite and not negative");
  }
  if (!std::isfinite(p.norm_weight_offset)) {
    return invalid_value("norm_weight_offset", format_float(p.norm_weight_offset), "must be finite");
  }
  if (present(p.k_norm_weight) || present(p.q_norm_weight)) return {};
  const fovea_kv_append_params d;
  if (p.norm_eps != d.norm_eps) return invalid_value("norm_eps", format_float(p.norm_eps), "needs a norm weight");
  if (p.norm_weight_offset == 0.0f) return {};
  return invalid_value("norm_weight_offset", format_float(p.norm_weight_offset), "needs a norm weight");
}

Status check_rope(const fovea_kv_append_params& p, const KvSpec& kv, int64_t tokens, Place where, RotarySpec& spec) {
  if (p.rope == nullptr) return check_absent("positions", p.positions, "needs rope");
  FOVEA_TRY(check_rope_config("rope", p.rope, kv.d_rope ? kv.d_rope : kv.d_k, where, spec));
  if (present(p.q) && p.q.shape[2] < spec.rotary_dim) {
    return invalid_value("q.shape[2]", p.q.shape[2],
                         "must be at least " + std::to_string(spec.rotary_dim) + " (rope.rotary_dim)");
  }
  return check_positions(p.positions, tokens, spec, where);
}

}  // namespace

Status KvAppendOp::check(const Params& p, const Caps& caps, Spec& spec) {
  FOVEA_TRY(check_struct("params", &p));
  const Place where = place(caps);
  spec = {};
  FOVEA_TRY(check_kv_store("kv", p.kv, spec.kv));
  FOVEA_TRY(check_tensor("k", p.k, kFloatTypes, 3, 3, where));
  const int64_t tokens = p.k.shape[0];
  FOVEA_TRY(check_kv_input("k", p.k, spec.kv, tokens, spec.kv.d_k, "kv.d_k", where));
  if (spec.kv.v_in_k) {
    FOVEA_TRY(check_absent("v", p.v, "V is part of K (kv.v_in_k)"));
  } else {
    FOVEA_TRY(check_kv_input("v", p.v, spec.kv, tokens, spec.kv.d_v, "kv.d_v", where));
  }
  FOVEA_TRY(check_tensor("slot_mapping", p.slot_mapping, kIndexTypes, 1, 1, where, LastStride::any));
  FOVEA_TRY(check_dim("slot_mapping", p.slot_mapping, 0, tokens, "tokens"));
  FOVEA_TRY(check_q(p, spec.kv, tokens, where));
  FOVEA_TRY(check_norm(p, spec.kv, where));
  FOVEA_TRY(check_rope(p, spec.kv, tokens, where, spec.rotary));
  spec.k = dtype(p.k);
  spec.v = dtype(p.v);
  spec.q = dtype(p.q);
  spec.q_out = dtype(p.q_out);
  spec.has_k_norm = present(p.k_norm_weight);
  spec.has_q_norm = present(p.q_norm_weight);
  spec.tokens = tokens;
  if (present(p.q)) {
    spec.q_heads = p.q.shape[1];
    spec.d_q = p.q.shape[2];
  }
  return {};
}

Status KvAppendOp::fits(const Spec& planned, const Spec& now) {
  FOVEA_TRY(at_most_planned("k.shape[0]", now.tokens, planned.tokens));
  if (!kv_fits(planned.kv, now.kv)) return {FOVEA_INVALID_VALUE, "kv: differs from the cache the plan was made for"};
  if (now.rotary != planned.rotary) {
    return {FOVEA_INVALID_VALUE, "rope: differs from the one the plan was made for"};
  }
  Spec same = now;
  same.tokens = planned.tokens;
  return same == planned ? Status() : other_than_planned("kv_append");
}

Status KvAppendOp::bind(const Params& p, const Spec& spec, Args& args) {
  FOVEA_TRY(check_data("k", p.k));
  FOVEA_TRY(check_data("v", p.v));
  FOVEA_TRY(check_data("slot_mapping", p.slot_mapping));
  FOVEA_TRY(check_data("q", p.q));
  FOVEA_TRY(check_data("q_out", p.q_out));
  FOVEA_TRY(check_data("k_norm_weight", p.k_norm_weight));
  FOVEA_TRY(check_data("q_norm_weight", p.q_norm_weight));
  if (present(p.q)) FOVEA_TRY(check_in_place("q_out", p.q_out, "q", p.q));
  args = {.spec = spec,
          .k = view(p.k),
          .v = view(p.v),
          .slot_mapping = view(p.slot_mapping),
          .q = view(p.q),
          .q_out = view(p.q_out),
          .k_norm_weight = view(p.k_norm_weight),
          .q_norm_weight = view(p.q_norm_weight),
          .norm_eps = p.norm_eps,
          .norm_weight_offset = p.norm_weight_offset,
          .rotary = {},
          .kv = {}};
  if (p.rope != nullptr) FOVEA_TRY(bind_rotary("rope", *p.rope, p.positions, args.rotary));
  return bind_kv_store("kv", *p.kv, spec.kv, args.kv);
}

Status slot_past_pool(const KvAppendArgs& args, i64_t token, i64_t slot) {
  return invalid_value("slot_mapping[" + std::to_string(token) + "]", slot,
                       "the pool has " + std::to_string(args.kv.pages) + " pages of " +
                           std::to_string(args.spec.kv.page_size) + " tokens");
}

Status vectors_not_finite(i64_t count) {
  return {FOVEA_INVALID_VALUE,
          "kv_append: " + std::to_string(count) + " vectors of K or V hold NaN or Inf: stored as zeros"};
}

}  // namespace fovea
