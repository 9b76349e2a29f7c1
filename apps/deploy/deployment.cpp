// SPDX-License-Identifier: Apache-2.0
#include "deploy/deployment.h"

#include <algorithm>
#include <set>

namespace fovea::app {

namespace {

using bench::Shape;

constexpr int64_t kMostTokens = int64_t{1} << 30;  // of all sequences of a case

int32_t codec_of(int32_t dtype) {
  return dtype == FOVEA_F32 ? FOVEA_CODEC_F32 : dtype == FOVEA_F16 ? FOVEA_CODEC_F16 : FOVEA_CODEC_BF16;
}

// Ascending, none above the limit, which is one of them.
std::vector<int64_t> up_to(int64_t limit, std::initializer_list<int64_t> values) {
  std::set<int64_t> chosen(values.begin(), values.end());
  chosen.insert(limit);
  chosen.erase(chosen.upper_bound(limit), chosen.end());
  return {chosen.begin(), chosen.end()};
}

class Builder {
 public:
  Builder(const ModelAttention& model, const Deployment& deployment) : model_(model), deployment_(deployment) {}

  std::vector<DeployedCase> build() {
    for (const AttentionLayers& layers : model_.layers) {
      if (layers.fresh) add_prefill(layers);
      for (const int32_t codec : deployment_.codecs) {
        if (!layers.cached) continue;
        add_cached(layers, codec);
        add_append(layers, codec);
      }
      add_merge(layers);
    }
    return std::move(cases_);
  }

 private:
  Shape shape_of(const AttentionLayers& layers) const {
    Shape s;
    s.heads = layers.heads;
    s.kv_heads = layers.kv_heads;
    s.head_dim = layers.d_k;
    s.head_dim_v = layers.d_v == layers.d_k ? 0 : layers.d_v;
    s.window = layers.window;
    s.chunk = layers.chunk;
    s.softcap = layers.softcap;
    s.sinks = layers.sinks;
    s.alibi = layers.alibi;
    s.v_in_k = layers.v_in_k;
    s.type = s.q_type = deployment_.dtype;
    s.layout = deployment_.layout;
    return s;
  }
  Shape with_cache(Shape s, int32_t codec) const {
    s.codec = codec;
    s.scale_kind = codec == FOVEA_CODEC_FP8 ? deployment_.scale_kind : bench::kAuto;
    s.page_size = deployment_.page_size;
    return s;
  }
  void add(const std::string& what, const AttentionLayers& layers, int32_t op, const Shape& s, bool cached) {
    std::string text = fovea_op_name(op) + (what.empty() ? "" : ", " + what) + ", " + layers.name + " layers";
    if (cached) text += std::string(", kv ") + fovea_codec_name(s.codec);
    cases_.push_back({text, op, s});
  }
  // With and without an LSE, which merges of partial results need.
  void add_attention(const std::string& what, const AttentionLayers& layers, Shape s, bool cached) {
    s.batch = std::max<int64_t>(std::min(s.batch, kMostTokens / s.kv_len), 1);
    for (const bool lse : {false, true}) {
      s.lse = lse;
      add(what, layers, FOVEA_OP_ATTENTION, s, cached);
    }
  }
  void add_prefill(const AttentionLayers& layers) {
    Shape s = shape_of(layers);
    s.codec = codec_of(deployment_.dtype);
    s.page_size = 0;
    for (const int64_t tokens : up_to(deployment_.max_tokens, {16, 128, 1024})) {
      for (const int64_t batch : up_to(deployment_.max_tokens / tokens, {1})) {
        s.q_len = s.kv_len = tokens;
        s.batch = batch;
        add_attention("prefill", layers, s, false);
      }
    }
  }
  void add_cached(const AttentionLayers& layers, int32_t codec) {
    Shape s = with_cache(shape_of(layers), codec);
    for (const int64_t tokens : up_to(deployment_.max_tokens, {16, 128, 1024})) {
      for (const int64_t batch : up_to(deployment_.max_tokens / tokens, {1})) {
        s.q_len = tokens;
        s.kv_len = std::max(deployment_.max_len, tokens);
        s.batch = batch;
        add_attention("chunked prefill", layers, s, true);
      }
    }
    for (const int64_t drafts : {1, 2, 4, 8}) {
      for (const int64_t batch : up_to(deployment_.max_batch, {1, 8, 64})) {
        for (const int64_t len : up_to(deployment_.max_len, {512, 1024, 4096})) {
          s.q_len = drafts;
          s.kv_len = std::max(len, drafts);
          s.batch = batch;
          add_attention(drafts == 1 ? "decode" : "decode of drafts", layers, s, true);
        }
      }
    }
  }
  // As the model does it, and plain, for engines that rotate and norm by themselves.
  void add_append(const AttentionLayers& layers, int32_t codec) {
    Shape s = with_cache(shape_of(layers), codec);
    s.kv_len = std::max(deployment_.max_len, deployment_.max_tokens);
    s.batch = 1;
    s.q_len = deployment_.max_tokens;
    add("plain", layers, FOVEA_OP_KV_APPEND, s, true);
    s.rope = model_.rope;
    s.rope_style = model_.rope_style;
    s.rotary_dim = model_.rotary_dim;
    s.qk_norm = model_.qk_norm;
    if (s.v_in_k) s.rope = false;  // its last dims turn, which the caller does or gives as a stream of their own
    if (s.rope || s.qk_norm) add("with rope and norm", layers, FOVEA_OP_KV_APPEND, s, true);
  }
  void add_merge(const AttentionLayers& layers) {
    Shape s = shape_of(layers);
    s.head_dim = layers.d_v;
    s.sinks = false;
    s.q_len = 1;
    s.batch = std::max(deployment_.max_tokens, deployment_.max_batch);
    s.lse = true;
    for (const int64_t parts : {2, 8}) {
      s.parts = parts;
      add("", layers, FOVEA_OP_MERGE_STATES, s, false);
    }
  }

  const ModelAttention& model_;
  const Deployment& deployment_;
  std::vector<DeployedCase> cases_;
};

}  // namespace

std::vector<DeployedCase> cases_of(const ModelAttention& model, const Deployment& deployment) {
  return Builder(model, deployment).build();
}

}  // namespace fovea::app
