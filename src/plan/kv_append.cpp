// SPDX-License-Identifier: Apache-2.0
#include "plan/kv_append.h"

#include <algorithm>

#include "plan/kv_side.h"
#include "plan/rope.h"

namespace fovea {

namespace {

bool computes_scales(const KvSideSpec& side) {
  return side.scale_kind == ScaleKind::token_head || side.scale_kind == ScaleKind::group;
}

// Scales of the wide codecs would change nothing but the exponent: none is computed for them.
Status check_side(const char* name, const KvSideSpec& side, bool on_cuda) {
  if (on_cuda) FOVEA_TRY(check_codec_on_cuda("kv_append", name, side));
  if (!computes_scales(side) || side.codec == Codec::fp8 || codec_is_grid(side.codec)) return {};
  return unsupported(std::string(name) + ".scale_kind is " + find_scale_kind(static_cast<int>(side.scale_kind))->name +
                     ": kv_append computes scales for codecs fp8 and i8 to q2, not for " +
                     find_codec(static_cast<int>(side.codec))->name);
}

std::string describe_side(const KvSideSpec& side) {
  std::string text = find_codec(static_cast<int>(side.codec))->name;
  if (side.scale_kind == ScaleKind::none) return text;
  text += computes_scales(side) ? " with computed scales per " : " with given scales per ";
  text += find_scale_kind(static_cast<int>(side.scale_kind))->name;
  return text;
}

constexpr i64_t kMostHeads = 1 << 20;  // of a kind on CUDA: a token belongs to one block

// How rows lie over lanes: by their dims alone, so that the order of a norm's sum does not depend on strides.
void choose_kernel(const CudaArch& arch, KvAppendPlan& plan) {
  const KvAppendSpec& s = plan.spec;
  AppendShape &k = plan.shape[0], &v = plan.shape[1], &q = plan.shape[2];
  k = {.d = s.kv.d_k, .main = s.kv.d_k - s.kv.d_rope};
  if (!s.kv.v_in_k) v = {.d = s.kv.d_v, .main = s.kv.d_v};
  if (s.q != Dtype::none) q = {.d = static_cast<int>(s.d_q), .main = static_cast<int>(s.d_q) - s.kv.d_rope};
  for (AppendShape* shape : {&k, &q}) {
    if (shape->d == 0) continue;
    shape->turns = s.rotary.rotary_dim;
    if (shape->turns && s.kv.d_rope) shape->turned = shape->main;
  }
  const RopeStyle style = s.rotary.style;
  const bool wide = append_is_wide(k, style, s.kv.k.scale_group) && append_is_wide(v, style, s.kv.v.scale_group) &&
                    append_is_wide(q, style, 0);
  const int width = wide ? 8 : 1;
  int units = wide ? 1 : 16;
  for (AppendShape& shape : plan.shape) {
    append_cut(shape, style, width);
    units = std::max(units, (append_units(shape) + shape.lanes - 1) / shape.lanes);
  }
  plan.kernel = "cuda";
  plan.kernels = {{.request = kv_append_kernel(arch, width, units)}};
}

}  // namespace

KernelRequest kv_append_kernel(const CudaArch& arch, int width, int units) {
  return {.file = "backend/cuda/kernels/kv_append.cuh",
          .entry = "kv_append",
          .constants = {{"width", width}, {"units", units}},
          .arch = arch};
}

Status make_plan(const KvAppendSpec& spec, const Caps& caps, KvAppendPlan& plan) {
  const bool on_cuda = caps.device_type == FOVEA_CUDA;
  if (caps.device_type != FOVEA_CPU && !on_cuda) return unsupported("kv_append: no kernel for this device");
  if (on_cuda && (spec.kv.heads > kMostHeads || spec.q_heads > kMostHeads)) {
    return unsupported("kv_append: " + std::to_string(std::max<i64_t>(spec.kv.heads, spec.q_heads)) +
                       " heads: at most " + std::to_string(kMostHeads) + " on this device");
  }
  FOVEA_TRY(check_side("kv.k", spec.kv.k, on_cuda));
  if (!spec.kv.v_in_k) FOVEA_TRY(check_side("kv.v", spec.kv.v, on_cuda));
  plan.spec = spec;
  plan.kernel = "cpu_tokens";
  if (on_cuda) choose_kernel(caps.arch, plan);
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
  if (plan.kernels.empty()) {
    text += "; one task per block of tokens";
  } else {
    text += "; " + name(plan.kernels[0].request) + ", one block per token, " + std::to_string(plan.shape[0].lanes) +
            " lanes per row of K";
  }
  return text + ", up to " + std::to_string(s.tokens) + " tokens";
}

}  // namespace fovea
