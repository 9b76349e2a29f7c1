// SPDX-License-Identifier: Apache-2.0
#include "model.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "quantize.h"
#include "quoted.h"

namespace fovea::app {
namespace {

// Architectures that are this graph, and how their files have Q and K: llama's with rows permuted for rotation of
// adjacent pairs, the others as they were trained.
struct Architecture {
  std::string_view name;
  int32_t rope_style;
};
constexpr Architecture kArchitectures[] = {{"llama", FOVEA_ROPE_GPTJ}, {"qwen2", FOVEA_ROPE_NEOX}};

const Architecture& find_architecture(const Gguf& file) {
  const std::string_view wanted = file.get_string("general.architecture");
  std::string names;
  for (const Architecture& a : kArchitectures) {
    if (a.name == wanted) return a;
    names += (names.empty() ? "" : ", ") + std::string(a.name);
  }
  throw Error(file.name() + ": architecture " + quoted(wanted) + " is not supported, only " + names);
}

// Element types of weights and every block type, by the names that both tables have.
struct WeightType {
  std::string_view gguf;
  int32_t dtype;
  bool taken;
};
constexpr WeightType kWeightTypes[] = {
#define FOVEA_DTYPE(name, NAME, value, block, bytes) \
  {#NAME, value, (block) > 1 || (value) == FOVEA_F32 || (value) == FOVEA_F16 || (value) == FOVEA_BF16},
#include "fovea/dtypes.def"
#undef FOVEA_DTYPE
};

std::string shape_text(std::span<const int64_t> shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return out + "]";
}

int64_t bytes_of(const Tensor& t) {
  return fovea_dtype_bytes(t.dtype, t.rank == 1 ? t.shape[0] : t.shape[0] * t.shape[1]);
}

}  // namespace

Model::Model(Gguf file) : file_(std::move(file)) {
  const Architecture& architecture = find_architecture(file_);
  architecture_ = architecture.name;
  rope_.style = architecture.rope_style;
  read_config();
  read_rope();
  read_weights();
}

std::string Model::key(std::string_view name) const {
  return architecture_ + "." + std::string(name);
}

void Model::read_config() {
  const auto size = [&](std::string_view name, std::optional<uint64_t> otherwise = {}) {
    const uint64_t value = file_.get_uint(key(name), otherwise);
    if (value < 1 || value > (1u << 30)) {
      throw Error(file_.name() + ": metadata '" + key(name) + "' is " + std::to_string(value) +
                  ", allowed are 1 to 2^30");
    }
    return static_cast<int64_t>(value);
  };
  ModelConfig& c = config_;
  c.layers = size("block_count");
  c.hidden = size("embedding_length");
  c.heads = size("attention.head_count");
  c.kv_heads = size("attention.head_count_kv", static_cast<uint64_t>(c.heads));
  c.ffn = size("feed_forward_length");
  c.context = size("context_length");
  c.d_k = size("attention.key_length", static_cast<uint64_t>(std::max<int64_t>(1, c.hidden / c.heads)));
  c.d_v = size("attention.value_length", static_cast<uint64_t>(c.d_k));
  if (file_.get_uint(key("attention.sliding_window"), 0) != 0) c.window = size("attention.sliding_window");
  c.norm_eps = static_cast<float>(file_.get_float(key("attention.layer_norm_rms_epsilon")));
  c.vocab = static_cast<int64_t>(file_.get_strings("tokenizer.ggml.tokens").size());
  if (c.heads % c.kv_heads != 0) {
    throw Error(file_.name() + ": " + std::to_string(c.heads) + " query heads cannot share " +
                std::to_string(c.kv_heads) + " kv heads evenly");
  }
  if (const uint64_t experts = file_.get_uint(key("expert_count"), 0); experts != 0) {
    throw Error(file_.name() + ": mixture of " + std::to_string(experts) + " experts is not supported");
  }
}

void Model::read_rope() {
  const uint64_t rotary = file_.get_uint(key("rope.dimension_count"), static_cast<uint64_t>(config_.d_k));
  rope_.rotary_dim = static_cast<int32_t>(std::min<uint64_t>(rotary, 1u << 20));
  rope_.theta = file_.get_float(key("rope.freq_base"), 10000.0);
  const std::string_view scaling = file_.get_string(key("rope.scaling.type"), "none");
  if (scaling == "linear") {
    rope_.scaling = FOVEA_ROPE_SCALING_LINEAR;
    rope_.factor = file_.get_float(key("rope.scaling.factor"));
  } else if (scaling == "yarn") {
    rope_.scaling = FOVEA_ROPE_SCALING_YARN;
    rope_.factor = file_.get_float(key("rope.scaling.factor"));
    rope_.original_max_position = static_cast<int64_t>(file_.get_uint(key("rope.scaling.original_context_length")));
  } else if (scaling != "none") {
    throw Error(file_.name() + ": rope scaling " + quoted(scaling) + " is not supported (none, linear, yarn)");
  }
  if (const GgufTensor* factors = file_.find_tensor("rope_freqs.weight")) {
    const Tensor t = need("rope_freqs.weight", {rope_.rotary_dim / 2});
    if (t.dtype != FOVEA_F32 || scaling != "none") {
      throw Error(file_.name() + ": rope_freqs.weight must be F32 and stand alone, without rope.scaling.type");
    }
    // Llama 3 files carry the finished divisors; LongRoPE is the scaling that takes such a list.
    rope_factors_.resize(static_cast<size_t>(rope_.rotary_dim / 2));
    std::memcpy(rope_factors_.data(), factors->data, rope_factors_.size() * sizeof(float));
    rope_.scaling = FOVEA_ROPE_SCALING_LONGROPE;
    rope_.short_factor = rope_.long_factor = rope_factors_.data();
    rope_.original_max_position = rope_.max_position = config_.context;
    rope_.attention_factor = 1.0;
  }
}

Tensor Model::find(const std::string& name, std::vector<int64_t> shape) {
  const GgufTensor* found = file_.find_tensor(name);
  if (found == nullptr) return {};
  ++used_;
  std::vector<int64_t> have;  // outermost first, as the library has it
  for (uint32_t i = found->n_dims; i-- > 0;) have.push_back(static_cast<int64_t>(found->dims[i]));
  if (have != shape) {
    throw Error(file_.name() + ": tensor '" + name + "' has shape " + shape_text(have) + ", wanted " +
                shape_text(shape));
  }
  for (const WeightType& type : kWeightTypes) {
    if (!type.taken || type.gguf != found->type->name) continue;
    return shape.size() == 1 ? tensor(found->data, type.dtype, {shape[0]})
                             : tensor(found->data, type.dtype, {shape[0], shape[1]});
  }
  std::string allowed;
  for (const WeightType& type : kWeightTypes) {
    if (type.taken) allowed += (allowed.empty() ? "" : ", ") + std::string(type.gguf);
  }
  throw Error(file_.name() + ": tensor '" + name + "' has type " + std::string(found->type->name) + ", supported are " +
              allowed);
}

Tensor Model::need(const std::string& name, std::vector<int64_t> shape) {
  const Tensor t = find(name, std::move(shape));
  if (t.dtype == FOVEA_DTYPE_NONE) throw Error(file_.name() + ": tensor '" + name + "' is missing");
  return t;
}

void Model::read_weights() {
  const ModelConfig& c = config_;
  const auto matrix = [&](const std::string& name, int64_t outputs, int64_t inputs) {
    return Matrix{.values = need(name, {outputs, inputs}), .scale = {}};
  };
  embedding_ = matrix("token_embd.weight", c.vocab, c.hidden);
  output_norm_ = need("output_norm.weight", {c.hidden});
  output_.values = find("output.weight", {c.vocab, c.hidden});
  if (output_.values.dtype == FOVEA_DTYPE_NONE) output_ = embedding_;
  const int64_t q = c.heads * c.d_k, k = c.kv_heads * c.d_k, v = c.kv_heads * c.d_v;
  for (int64_t i = 0; i < c.layers; ++i) {
    const std::string block = "blk." + std::to_string(i) + ".";
    layers_.push_back({
        .attn_norm = need(block + "attn_norm.weight", {c.hidden}),
        .wq = matrix(block + "attn_q.weight", q, c.hidden),
        .bq = find(block + "attn_q.bias", {q}),
        .wk = matrix(block + "attn_k.weight", k, c.hidden),
        .bk = find(block + "attn_k.bias", {k}),
        .wv = matrix(block + "attn_v.weight", v, c.hidden),
        .bv = find(block + "attn_v.bias", {v}),
        .wo = matrix(block + "attn_output.weight", c.hidden, c.heads * c.d_v),
        .bo = find(block + "attn_output.bias", {c.hidden}),
        .ffn_norm = need(block + "ffn_norm.weight", {c.hidden}),
        .w_gate = matrix(block + "ffn_gate.weight", c.ffn, c.hidden),
        .w_up = matrix(block + "ffn_up.weight", c.ffn, c.hidden),
        .w_down = matrix(block + "ffn_down.weight", c.hidden, c.ffn),
    });
  }
  // A tensor this graph knows nothing of would change the answers: better no answer than a wrong one.
  if (used_ != file_.tensors().size()) {
    throw Error(file_.name() + ": has " + std::to_string(file_.tensors().size()) + " tensors, the " + architecture_ +
                " graph uses " + std::to_string(used_) + " of them; this variant is not supported");
  }
}

void Model::quantize_matrix(const Context& context, int32_t type, const std::string& name, Matrix& matrix) {
  try {
    const Tensor from = matrix.values;
    const int32_t to = type_for_rows(type, from.shape[1]);
    if (from.dtype == to) return;
    Quantized q = quantized(context, matrix, to);
    file_.forget({static_cast<const std::byte*>(from.data), static_cast<size_t>(bytes_of(from))});
    matrix = q.matrix;
    quantized_.push_back(std::move(q.memory));
  } catch (const Error& error) {
    throw Error(file_.name() + ": tensor '" + name + ".weight' " + error.what());
  }
}

void Model::quantize(const Context& context, int32_t type) {
  const bool tied = embedding_.values.data == output_.values.data;
  quantize_matrix(context, type, tied ? "token_embd" : "output", output_);
  if (tied) embedding_ = output_;
  for (size_t i = 0; i < layers_.size(); ++i) {
    LayerWeights& l = layers_[i];
    const std::pair<const char*, Matrix*> matrices[] = {
        {"attn_q", &l.wq},       {"attn_k", &l.wk},   {"attn_v", &l.wv},      {"attn_output", &l.wo},
        {"ffn_gate", &l.w_gate}, {"ffn_up", &l.w_up}, {"ffn_down", &l.w_down}};
    for (const auto& [name, matrix] : matrices) {
      quantize_matrix(context, type, "blk." + std::to_string(i) + "." + name, *matrix);
    }
  }
}

std::vector<WeightUse> Model::weights() const {
  std::map<int32_t, WeightUse> by_type;
  const auto add = [&](const Tensor& t) {
    if (t.dtype == FOVEA_DTYPE_NONE) return;
    WeightUse& use = by_type.try_emplace(t.dtype, WeightUse{t.dtype, 0, 0}).first->second;
    ++use.tensors;
    use.bytes += bytes_of(t);
  };
  const auto add_matrix = [&](const Matrix& m) {
    add(m.values);
    if (m.scale.dtype != FOVEA_DTYPE_NONE) by_type.at(m.values.dtype).bytes += bytes_of(m.scale);
  };
  add_matrix(embedding_);
  if (output_.values.data != embedding_.values.data) add_matrix(output_);
  add(output_norm_);
  for (const LayerWeights& l : layers_) {
    for (const Tensor* t : {&l.attn_norm, &l.bq, &l.bk, &l.bv, &l.bo, &l.ffn_norm}) add(*t);
    for (const Matrix* m : {&l.wq, &l.wk, &l.wv, &l.wo, &l.w_gate, &l.w_up, &l.w_down}) add_matrix(*m);
  }
  std::vector<WeightUse> uses;
  uses.reserve(by_type.size());
  for (const auto& [dtype, use] : by_type) uses.push_back(use);
  std::stable_sort(uses.begin(), uses.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return uses;
}

}  // namespace fovea::app
