// SPDX-License-Identifier: Apache-2.0
#include "plan/kv_append.h"

#include "plan/rope.h"

namespace fovea {

namespace {

bool computes_scales(const KvSideSpec& side) {
  return side.scale_kind == ScaleKind::token_head || side.scale_kind == ScaleKind::group;
}

// Scales of the wide codecs would change nothing but the exponent: none is computed for them.
Status check_side(const char* name, const KvSideSpec& side) {
  if (!computes_scales(side) || side.codec == Codec::fp8) return {};
  return unsupported(std::string(name) + ".scale_kind is " + find_scale_kind(static_cast<int>(side.scale_kind))->name +
                     ": kv_append computes scales for codec fp8, not for " +
                     find_codec(static_cast<int>(side.codec))->name);
}

std::string describe_side(const KvSideSpec& side) {
  std::string text = find_codec(static_cast<int>(side.codec))->name;
  if (side.scale_kind == ScaleKind::none) return text;
  text += computes_scales(side) ? " with computed scales per " : " with given scales per ";
  text += find_scale_kind(static_cast<int>(side.scale_kind))->name;
  return text;
}

}  // namespace

Status make_plan(const KvAppendSpec& spec, const Caps& caps, KvAppendPlan& plan) {
  if (caps.device_type != FOVEA_CPU) return unsupported("kv_append: no kernel for this device");
  FOVEA_TRY(check_side("kv.k", spec.kv.k));
  if (!spec.kv.v_in_k) FOVEA_TRY(check_side("kv.v", spec.kv.v));
  plan.spec = spec;
  plan.kernel = "cpu_tokens";
  return spec.rotary.rotary_dim ? make_rotary_table(spec.rotary, plan.table) : Status();
}

std::string explain(const KvAppendPlan& plan) {
  const KvAppendSpec& s = plan.spec;
  std::string text = std::string("kv_append: ") + plan.kernel;
  if (s.has_k_norm || s.has_q_norm) {
    text += std::string(", RMS norm of ") + (!s.has_q_norm ? "K" : !s.has_k_norm ? "Q" : "K and Q");
  }
  if (s.rotary.rotary_dim) text += ", RoPE " + describe(s.rotary);
  if (s.k != Dtype::f32) text += ", K rounded to " + std::string(find_dtype(static_cast<int>(s.k))->name);
  text += ", K as " + describe_side(s.kv.k);
  text += s.kv.v_in_k ? ", V in K" : ", V as " + describe_side(s.kv.v);
  return text + "; one task per block of tokens, up to " + std::to_string(s.tokens) + " tokens";
}

}  // namespace fovea
