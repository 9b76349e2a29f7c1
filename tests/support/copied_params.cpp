// SPDX-License-Identifier: Apache-2.0
#include "support/copied_params.h"

#include <algorithm>

namespace fovea::test {
namespace {

void visit_tensor(const std::string& name, fovea_tensor& t, bool written, const Visit& visit) {
  if (t.dtype != 0) visit(name, t.data, &t, written);
}

void visit_kv(const std::string& name, fovea_kv& kv, bool written, const Visit& visit) {
  const auto side = [&](const std::string& side_name, fovea_kv_side& s) {
    const bool computed = s.scale_kind == FOVEA_SCALE_TOKEN_HEAD || s.scale_kind == FOVEA_SCALE_GROUP;
    if (s.data.base != nullptr) visit(side_name + ".data", s.data.base, nullptr, written);
    if (s.scale.base != nullptr) visit(side_name + ".scale", s.scale.base, nullptr, written && computed);
  };
  side(name + ".k", kv.k);
  side(name + ".v", kv.v);
  if (kv.k_rope.base != nullptr) visit(name + ".k_rope", kv.k_rope.base, nullptr, written);
  const std::pair<const char*, fovea_tensor*> tensors[] = {
      {".page_table", &kv.page_table},   {".v_page_table", &kv.v_page_table},
      {".page_indptr", &kv.page_indptr}, {".kv_lens", &kv.kv_lens},
      {".starts", &kv.starts},           {".cu_seqlens_kv", &kv.cu_seqlens_kv},
      {".rotation", &kv.rotation},       {".k_offset", &kv.k_offset},
      {".codebook", &kv.codebook},       {".signs", &kv.signs}};
  for (const auto& [field, tensor] : tensors) visit_tensor(name + field, *tensor, false, visit);
}

// The structs of a wrong call may hold any number: an array of impossible length is left as it is, unread.
class CopiedAttention final : public CopiedParams {
 public:
  explicit CopiedAttention(const fovea_attention_params& p) : p_(p) {
    if (p.kv == nullptr || p.kv_segments < 1 || p.kv_segments > FOVEA_MAX_SEGMENTS) return;
    segments_ = p.kv_segments;
    std::copy_n(p.kv, segments_, kv_);
    p_.kv = kv_;
  }
  void* get() override { return &p_; }
  void force_kernel(const char* name) override {
    if (p_.kernel == nullptr) p_.kernel = name;
  }
  void visit(const Visit& visit) override {
    const std::pair<const char*, fovea_tensor*> inputs[] = {{"q", &p_.q},
                                                            {"cu_seqlens_q", &p_.cu_seqlens_q},
                                                            {"q_lens", &p_.q_lens},
                                                            {"q_starts", &p_.q_starts},
                                                            {"mask_bits", &p_.mask_bits},
                                                            {"mask_lens", &p_.mask_lens},
                                                            {"alibi_slopes", &p_.alibi_slopes},
                                                            {"sinks", &p_.sinks}};
    for (const auto& [name, tensor] : inputs) visit_tensor(name, *tensor, false, visit);
    visit_tensor("out", p_.out, true, visit);
    visit_tensor("lse", p_.lse, true, visit);
    for (int32_t s = 0; s < segments_; ++s) visit_kv("kv[" + std::to_string(s) + "]", kv_[s], false, visit);
  }

 private:
  fovea_attention_params p_;
  fovea_kv kv_[FOVEA_MAX_SEGMENTS];
  int32_t segments_ = 0;
};

class CopiedMerge final : public CopiedParams {
 public:
  explicit CopiedMerge(const fovea_merge_states_params& p) : p_(p) {
    if (p.parts < 1 || p.parts > FOVEA_MAX_PARTS) return;
    const auto copy = [&](const fovea_tensor*& from, fovea_tensor* to, int32_t& n) {
      if (from == nullptr) return;
      n = p.parts;
      std::copy_n(from, n, to);
      from = to;
    };
    copy(p_.outs, outs_, out_count_);
    copy(p_.lses, lses_, lse_count_);
  }
  void* get() override { return &p_; }
  void visit(const Visit& visit) override {
    for (int32_t i = 0; i < out_count_; ++i) visit_tensor("outs[" + std::to_string(i) + "]", outs_[i], false, visit);
    for (int32_t i = 0; i < lse_count_; ++i) visit_tensor("lses[" + std::to_string(i) + "]", lses_[i], false, visit);
    visit_tensor("sinks", p_.sinks, false, visit);
    visit_tensor("out", p_.out, true, visit);
    visit_tensor("lse", p_.lse, true, visit);
  }

 private:
  fovea_merge_states_params p_;
  fovea_tensor outs_[FOVEA_MAX_PARTS], lses_[FOVEA_MAX_PARTS];
  int32_t out_count_ = 0, lse_count_ = 0;
};

class CopiedAppend final : public CopiedParams {
 public:
  explicit CopiedAppend(const fovea_kv_append_params& p) : p_(p) {
    if (p.kv != nullptr) kv_ = *p.kv, p_.kv = &kv_;
    if (p.rope != nullptr) rope_ = *p.rope, p_.rope = &rope_;
  }
  void* get() override { return &p_; }
  void visit(const Visit& visit) override {
    const std::pair<const char*, fovea_tensor*> inputs[] = {{"k", &p_.k},
                                                            {"v", &p_.v},
                                                            {"slot_mapping", &p_.slot_mapping},
                                                            {"q", &p_.q},
                                                            {"q_norm_weight", &p_.q_norm_weight},
                                                            {"k_norm_weight", &p_.k_norm_weight},
                                                            {"positions", &p_.positions}};
    for (const auto& [name, tensor] : inputs) visit_tensor(name, *tensor, false, visit);
    visit_tensor("q_out", p_.q_out, true, visit);
    if (p_.kv != nullptr) visit_kv("kv", kv_, true, visit);
    if (p_.rope == nullptr) return;
    visit_tensor("rope.cos", rope_.cos, false, visit);
    visit_tensor("rope.sin", rope_.sin, false, visit);
  }

 private:
  fovea_kv_append_params p_;
  fovea_kv kv_;
  fovea_rope_config rope_;
};

}  // namespace

std::unique_ptr<CopiedParams> copy_params(int32_t op, const void* params) {
  switch (op) {
    case FOVEA_OP_ATTENTION:
      return std::make_unique<CopiedAttention>(*static_cast<const fovea_attention_params*>(params));
    case FOVEA_OP_MERGE_STATES:
      return std::make_unique<CopiedMerge>(*static_cast<const fovea_merge_states_params*>(params));
    case FOVEA_OP_KV_APPEND:
      return std::make_unique<CopiedAppend>(*static_cast<const fovea_kv_append_params*>(params));
    default:
      return nullptr;
  }
}

}  // namespace fovea::test
