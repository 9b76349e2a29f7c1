// SPDX-License-Identifier: Apache-2.0
#include "graph.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace fovea::app {
namespace {

// The tensors of an operation whose first dimension is the number of tokens.
void set_rows(EmbedParams& p, int64_t n) {
  p.ids.shape[0] = p.out.shape[0] = n;
}
void set_rows(MatmulParams& p, int64_t n) {
  p.x.shape[0] = p.out.shape[0] = n;
}
void set_rows(GluParams& p, int64_t n) {
  p.gate.shape[0] = p.up.shape[0] = p.out.shape[0] = n;
}
void set_rows(NormParams& p, int64_t n) {
  p.x.shape[0] = p.out.shape[0] = n;
  if (p.residual.dtype != FOVEA_DTYPE_NONE) p.residual.shape[0] = p.residual_out.shape[0] = n;
}
void set_rows(KvAppendParams& p, int64_t n) {
  for (Tensor* t : {&p.k, &p.v, &p.q, &p.q_out, &p.slot_mapping, &p.positions}) t->shape[0] = n;
}
void set_rows(AttentionParams& p, int64_t n) {
  p.q.shape[0] = p.out.shape[0] = n;
}

}  // namespace

Graph::Graph(const Context& context, const Model& model, const KvCache& cache, const GraphLimits& limits)
    : limits_(limits), vocab_(model.config().vocab), hidden_(model.config().hidden) {
  const int64_t page_size = cache.shape().page_size;
  page_columns_ = (limits.kv_len + page_size - 1) / page_size;
  if (limits_.logit_rows == 0) limits_.logit_rows = limits_.sequences;
  allocate(model.config());
  for (int64_t i = 0; i < model.config().layers; ++i) {
    Kv kv = cache.layer(i);
    kv.max_len = limits.kv_len;
    kv.page_table = tensor(page_table_.data(), {limits.sequences, page_columns_});
    kv.kv_lens = tensor(kv_lens_.data(), {limits.sequences});
    kvs_.push_back(kv);
  }
  embed_.emplace(context, EmbedParams{.ids = tensor(ids_.data(), {limits.tokens}),
                                      .table = model.embedding().values,
                                      .table_scale = model.embedding().scale,
                                      .out = rows(x_, hidden_)});
  for (size_t i = 0; i < kvs_.size(); ++i) layers_.push_back(plan_layer(context, model, i));
  output_norm_.emplace(context, NormParams{.x = rows(delta_, hidden_),
                                           .out = rows(normed_, hidden_),
                                           .weight = model.output_norm(),
                                           .residual = rows(x_, hidden_),
                                           .residual_out = rows(x_, hidden_),
                                           .eps = model.config().norm_eps});
  output_.emplace(context, MatmulParams{.x = tensor(last_.data(), {limits_.logit_rows, hidden_}),
                                        .w = model.output().values,
                                        .w_scale = model.output().scale,
                                        .out = tensor(logits_.data(), {limits_.logit_rows, vocab_})});
}

void Graph::allocate(const ModelConfig& c) {
  const auto floats = [](std::vector<float>& buffer, int64_t rows, int64_t columns) {
    buffer.resize(static_cast<size_t>(rows * columns));
  };
  const int64_t n = limits_.tokens;
  for (std::vector<float>* buffer : {&x_, &delta_, &normed_}) floats(*buffer, n, c.hidden);
  floats(q_, n, c.heads * c.d_k);
  floats(k_, n, c.kv_heads * c.d_k);
  floats(v_, n, c.kv_heads * c.d_v);
  floats(attended_, n, c.heads * c.d_v);
  floats(gate_, n, c.ffn);
  floats(up_, n, c.ffn);
  floats(last_, limits_.logit_rows, c.hidden);
  floats(logits_, limits_.logit_rows, c.vocab);
  ids_.resize(static_cast<size_t>(n));
  positions_.resize(static_cast<size_t>(n));
  slots_.resize(static_cast<size_t>(n));
  cu_seqlens_q_.resize(static_cast<size_t>(limits_.sequences + 1));
  kv_lens_.resize(static_cast<size_t>(limits_.sequences));
  page_table_.resize(static_cast<size_t>(limits_.sequences * page_columns_));
}

Tensor Graph::rows(const std::vector<float>& buffer, int64_t columns) const {
  return tensor(buffer.data(), {limits_.tokens, columns});
}

Tensor Graph::heads(const std::vector<float>& buffer, int64_t heads, int64_t d) const {
  return tensor(buffer.data(), {limits_.tokens, heads, d});
}

Graph::Layer Graph::plan_layer(const Context& context, const Model& model, size_t index) {
  const ModelConfig& c = model.config();
  const LayerWeights& w = model.layers()[index];
  const Kv& kv = kvs_[index];
  const Tensor x = rows(x_, c.hidden), delta = rows(delta_, c.hidden), normed = rows(normed_, c.hidden);
  const Tensor q = heads(q_, c.heads, c.d_k), k = heads(k_, c.kv_heads, c.d_k), v = heads(v_, c.kv_heads, c.d_v);
  const Tensor gate = rows(gate_, c.ffn), up = rows(up_, c.ffn);

  const auto matmul = [&](const Tensor& in, const Matrix& weight, const Tensor& bias, const Tensor& out) {
    return Planned<MatmulParams>(context,
                                 {.x = in, .w = weight.values, .w_scale = weight.scale, .bias = bias, .out = out});
  };
  // x + delta is the new residual stream, and what is normalised. The first layer finds x fresh from the embedding.
  const auto add_and_norm = [&](const Tensor& weight) {
    return NormParams{.x = delta, .out = normed, .weight = weight, .residual = x, .residual_out = x, .eps = c.norm_eps};
  };
  const NormParams first_norm{.x = x, .out = normed, .weight = w.attn_norm, .eps = c.norm_eps};
  const AttentionParams attention{
      .mask = c.window > 0 ? FOVEA_MASK_WINDOW : FOVEA_MASK_CAUSAL,
      .q = q,
      .out = heads(attended_, c.heads, c.d_v),
      .cu_seqlens_q = tensor(cu_seqlens_q_.data(), {limits_.sequences + 1}),
      .kv = &kv,
      .window_left = c.window > 0 ? static_cast<int32_t>(c.window - 1) : -1,
      .window_right = c.window > 0 ? 0 : -1,
      .max_q_len = limits_.q_len,
      .batch_invariant = limits_.invariant,
      .chunk_invariant = limits_.invariant,
  };
  const KvAppendParams append{
      .k = k,
      .v = v,
      .kv = &kv,
      .slot_mapping = tensor(slots_.data(), {limits_.tokens}),
      .q = q,
      .q_out = q,
      .rope = &model.rope(),
      .positions = tensor(positions_.data(), {limits_.tokens}),
  };
  return {
      .attn_norm = {context, index == 0 ? first_norm : add_and_norm(w.attn_norm)},
      .q = matmul(normed, w.wq, w.bq, rows(q_, c.heads * c.d_k)),
      .k = matmul(normed, w.wk, w.bk, rows(k_, c.kv_heads * c.d_k)),
      .v = matmul(normed, w.wv, w.bv, rows(v_, c.kv_heads * c.d_v)),
      .append = {context, append},
      .attention = {context, attention},
      .o = matmul(rows(attended_, c.heads * c.d_v), w.wo, w.bo, delta),
      .ffn_norm = {context, add_and_norm(w.ffn_norm)},
      .gate = matmul(normed, w.w_gate, {}, gate),
      .up = matmul(normed, w.w_up, {}, up),
      .glu = {context, {.kind = FOVEA_GLU_SILU, .gate = gate, .up = up, .out = gate}},
      .down = matmul(gate, w.w_down, {}, delta),
  };
}

template <class Params>
void Graph::run(Planned<Params>& op) {
  set_rows(op.params, tokens_);
  op.plan.run(op.params, workspace_.exec(op.plan));
}

void Graph::run_layer(Layer& layer) {
  run(layer.attn_norm);
  run(layer.q);
  run(layer.k);
  run(layer.v);
  run(layer.append);
  layer.attention.params.cu_seqlens_q.shape[0] = sequences_ + 1;
  run(layer.attention);
  run(layer.o);
  run(layer.ffn_norm);
  run(layer.gate);
  run(layer.up);
  run(layer.glu);
  run(layer.down);
}

void Graph::bind(const Batch& batch) {
  tokens_ = static_cast<int64_t>(batch.ids.size());
  sequences_ = static_cast<int64_t>(batch.kv_lens.size());
  if (tokens_ > limits_.tokens || sequences_ > limits_.sequences) {
    throw Error("a step of " + std::to_string(tokens_) + " tokens and " + std::to_string(sequences_) +
                " sequences is larger than planned");
  }
  if (static_cast<int64_t>(batch.logit_rows.size()) > limits_.logit_rows) {
    throw Error("a step that wants " + std::to_string(batch.logit_rows.size()) +
                " rows of logits is larger than planned");
  }
  std::copy(batch.ids.begin(), batch.ids.end(), ids_.begin());
  std::copy(batch.positions.begin(), batch.positions.end(), positions_.begin());
  std::copy(batch.slots.begin(), batch.slots.end(), slots_.begin());
  std::copy(batch.cu_seqlens_q.begin(), batch.cu_seqlens_q.end(), cu_seqlens_q_.begin());
  std::copy(batch.kv_lens.begin(), batch.kv_lens.end(), kv_lens_.begin());
  for (size_t b = 0; b < batch.page_tables.size(); ++b) {
    const std::vector<int64_t>& pages = batch.page_tables[b];
    int32_t* row = page_table_.data() + static_cast<int64_t>(b) * page_columns_;
    std::transform(pages.begin(), pages.end(), row, [](int64_t page) { return static_cast<int32_t>(page); });
  }
  for (Kv& kv : kvs_) kv.page_table.shape[0] = kv.kv_lens.shape[0] = sequences_;
}

std::span<const float> Graph::forward(const Batch& batch) {
  bind(batch);
  run(*embed_);
  for (Layer& layer : layers_) run_layer(layer);
  run(*output_norm_);
  const auto wanted = static_cast<int64_t>(batch.logit_rows.size());
  if (wanted == 0) return {};
  for (int64_t i = 0; i < wanted; ++i) {
    std::memcpy(last_.data() + i * hidden_, normed_.data() + batch.logit_rows[static_cast<size_t>(i)] * hidden_,
                static_cast<size_t>(hidden_) * sizeof(float));
  }
  set_rows(output_->params, wanted);
  output_->plan.run(output_->params, workspace_.exec(output_->plan));
  return {logits_.data(), static_cast<size_t>(wanted * vocab_)};
}

template <class Function>
void Graph::for_each_op(Function function) const {
  function(*embed_);
  for (const Layer& l : layers_) {
    function(l.attn_norm), function(l.q), function(l.k), function(l.v), function(l.append), function(l.attention);
    function(l.o), function(l.ffn_norm), function(l.gate), function(l.up), function(l.glu), function(l.down);
  }
  function(*output_norm_);
  function(*output_);
}

int64_t Graph::activation_bytes() const {
  size_t floats = last_.size();
  for (const auto* buffer : {&x_, &delta_, &normed_, &q_, &k_, &v_, &attended_, &gate_, &up_}) floats += buffer->size();
  size_t scratch = 0;
  for_each_op([&](const auto& op) { scratch = std::max<size_t>(scratch, op.plan.scratch_bytes()); });
  return static_cast<int64_t>(floats * sizeof(float) + scratch);
}

int64_t Graph::logit_bytes() const {
  return static_cast<int64_t>(logits_.size() * sizeof(float));
}

void Graph::add_kernels(Kernels* kernels) const {
  for_each_op([&](const auto& op) { ++(*kernels)[op.plan.explain()]; });
}

}  // namespace fovea::app
