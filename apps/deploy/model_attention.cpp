// SPDX-License-Identifier: Apache-2.0
#include "deploy/model_attention.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "engine/error.h"
#include "engine/gguf.h"
#include "engine/quoted.h"

namespace fovea::app {

namespace {

using nlohmann::json;

constexpr int64_t kMost = 1 << 30;  // of a size in a configuration
constexpr int kDeepest = 64;        // objects and lists inside each other

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

// Fields of a config.json; null counts as absent, as it does for those who write such files.
class Fields {
 public:
  Fields(const json& object, std::string name) : object_(object), name_(std::move(name)) {}

  const json* find(std::initializer_list<const char*> keys) const {
    for (const char* key : keys) {
      const auto found = object_.find(key);
      if (found != object_.end() && !found->is_null()) return &*found;
    }
    return nullptr;
  }
  // The first key that is there; 0 where none is.
  int64_t size(std::initializer_list<const char*> keys) const {
    const json* value = find(keys);
    if (value == nullptr) return 0;
    if (!value->is_number_integer() || value->get<int64_t>() < 0 || value->get<int64_t>() > kMost) {
      fail(*keys.begin(), value->dump(), "must be a whole number from 0 to " + std::to_string(kMost));
    }
    return value->get<int64_t>();
  }
  int64_t needed(std::initializer_list<const char*> keys) const {
    const int64_t value = size(keys);
    if (value == 0) throw Error(name_ + ": " + *keys.begin() + " is missing");
    return value;
  }
  double real(std::initializer_list<const char*> keys, double otherwise) const {
    const json* value = find(keys);
    if (value == nullptr) return otherwise;
    if (!value->is_number() || !std::isfinite(value->get<double>()) || value->get<double>() < 0) {
      fail(*keys.begin(), value->dump(), "must be a number that is not negative");
    }
    return value->get<double>();
  }
  bool flag(const char* key, bool otherwise) const {
    const json* value = find({key});
    if (value == nullptr) return otherwise;
    if (!value->is_boolean()) fail(key, value->dump(), "must be true or false");
    return value->get<bool>();
  }
  std::string text(std::initializer_list<const char*> keys) const {
    const json* value = find(keys);
    if (value == nullptr) return "";
    if (!value->is_string()) fail(*keys.begin(), value->dump(), "must be a text");
    return value->get<std::string>();
  }
  std::vector<std::string> texts(const char* key) const {
    const json* value = find({key});
    std::vector<std::string> out;
    if (value == nullptr) return out;
    if (!value->is_array()) fail(key, value->dump(), "must be a list of texts");
    for (const json& element : *value) {
      if (!element.is_string()) fail(key, element.dump(), "must be a list of texts");
      out.push_back(element.get<std::string>());
    }
    return out;
  }
  const std::string& name() const { return name_; }
  [[noreturn]] void fail(const char* key, std::string value, const std::string& wanted) const {
    if (value.size() > 40) value = value.substr(0, 40) + "..";
    throw Error(name_ + ": " + key + " is " + value + ": " + wanted);
  }

 private:
  const json& object_;
  std::string name_;
};

int32_t dtype_of(const Fields& fields) {
  std::string text = fields.text({"dtype", "torch_dtype"});
  if (text.empty() || text == "auto") return 0;
  if (text.starts_with("torch.")) text = text.substr(6);
  if (text == "bfloat16") return FOVEA_BF16;
  if (text == "float16" || text == "half") return FOVEA_F16;
  if (text == "float32" || text == "float") return FOVEA_F32;
  fields.fail("torch_dtype", "\"" + printable(text) + "\"", "must be bfloat16, float16 or float32");
}

struct Spans {  // which kinds of layers there are
  bool full = false;
  bool sliding = false;
  bool chunked = false;
};

// From the list of layers where there is one, else by what is known of the model's type: where nothing is, both kinds
// are served.
Spans spans_of(const Fields& fields, const std::string& type, int64_t window, int64_t chunk) {
  Spans spans;
  for (const std::string& layer : fields.texts("layer_types")) {
    spans.full |= layer == "full_attention";
    spans.sliding |= layer == "sliding_attention" && window > 0;
    spans.chunked |= layer == "chunked_attention" && chunk > 0;
  }
  if (spans.full || spans.sliding || spans.chunked) return spans;
  if (window == 0 && chunk == 0) return {.full = true};
  const bool every_layer = is_one_of(type, {"mistral", "mixtral", "phi3", "phi3small", "starcoder2"});
  return {.full = !every_layer, .sliding = window > 0, .chunked = chunk > 0};
}

int64_t window_of(const Fields& fields) {
  if (!fields.flag("use_sliding_window", true)) return 0;  // Qwen's files have a size all the same
  return fields.size({"sliding_window", "sliding_window_size"});
}

// DeepSeek's latent attention: from the cache the latent vector itself is K and V of one head; new tokens are expanded.
std::vector<AttentionLayers> latent_layers(const Fields& fields, int64_t heads) {
  const int64_t latent = fields.needed({"kv_lora_rank"}), turned = fields.needed({"qk_rope_head_dim"});
  const int64_t plain = fields.needed({"qk_nope_head_dim"}), value = fields.needed({"v_head_dim"});
  return {
      {.name = "absorbed",
       .heads = heads,
       .kv_heads = 1,
       .d_k = latent + turned,
       .d_v = latent,
       .v_in_k = true,
       .fresh = false},
      {.name = "expanded", .heads = heads, .kv_heads = heads, .d_k = plain + turned, .d_v = value, .cached = false}};
}

std::vector<AttentionLayers> layers_of(const Fields& fields, const std::string& type) {
  const int64_t heads = fields.needed({"num_attention_heads", "n_head", "num_heads", "n_heads"});
  if (fields.find({"kv_lora_rank"}) != nullptr) return latent_layers(fields, heads);
  AttentionLayers layer{.name = "full", .heads = heads};
  layer.kv_heads = fields.size({"num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num"});
  if (layer.kv_heads == 0) layer.kv_heads = fields.flag("multi_query", false) ? 1 : heads;
  layer.d_k = fields.size({"head_dim", "kv_channels"});
  if (layer.d_k == 0) layer.d_k = fields.needed({"hidden_size", "n_embd", "d_model"}) / heads;
  layer.d_v = layer.d_k;
  if (layer.d_k == 0 || heads % layer.kv_heads != 0) {
    throw Error(fields.name() + ": num_attention_heads is " + std::to_string(heads) +
                ": must be a multiple of num_key_value_heads, " + std::to_string(layer.kv_heads) +
                ", and at most hidden_size");
  }
  layer.softcap = fields.real({"attn_logit_softcapping"}, 0);
  layer.sinks = type == "gpt_oss";
  layer.alibi = fields.flag("alibi", type == "bloom");
  if (const json* of_mpt = fields.find({"attn_config"}); of_mpt != nullptr && of_mpt->is_object()) {
    layer.alibi = Fields(*of_mpt, fields.name()).flag("alibi", layer.alibi);
  }
  const int64_t window = window_of(fields), chunk = fields.size({"attention_chunk_size"});
  const Spans spans = spans_of(fields, type, window, chunk);
  std::vector<AttentionLayers> layers;
  if (spans.full) layers.push_back(layer);
  if (spans.sliding) {
    AttentionLayers& sliding = layers.emplace_back(layer);
    sliding.name = "sliding";
    sliding.window = window;
  }
  if (spans.chunked) {
    AttentionLayers& chunked = layers.emplace_back(layer);
    chunked.name = "chunked";
    chunked.chunk = chunk;
  }
  return layers;
}

void read_rope(const Fields& fields, ModelAttention& model) {
  const AttentionLayers& first = model.layers.front();
  model.rope = !first.alibi;
  model.qk_norm = model.type.starts_with("qwen3") || model.type.starts_with("gemma3");
  const bool pairs = fields.flag("rope_interleave", false) ||
                     is_one_of(model.type, {"cohere", "cohere2", "glm", "glm4", "chatglm", "gptj", "deepseek_v2",
                                            "deepseek_v3", "llama4", "llama4_text"});
  model.rope_style = pairs ? FOVEA_ROPE_GPTJ : FOVEA_ROPE_NEOX;
  if (first.v_in_k) {
    model.rotary_dim = first.d_k - first.d_v;
    return;
  }
  const double part = fields.real({"partial_rotary_factor", "rotary_pct"}, 1);
  if (part < 1) model.rotary_dim = static_cast<int64_t>(part * static_cast<double>(first.d_k)) / 2 * 2;
}

ModelAttention read_gguf(const std::string& path) {
  const Gguf file = Gguf::open(path);
  ModelAttention model;
  model.type = file.get_string("general.architecture");
  const auto size = [&](const char* key, std::optional<uint64_t> otherwise) {
    const uint64_t value = file.get_uint(model.type + "." + key, otherwise);
    if (value > static_cast<uint64_t>(kMost)) throw Error(path + ": " + key + " is " + std::to_string(value));
    return static_cast<int64_t>(value);
  };
  AttentionLayers layer{.name = "full", .heads = std::max<int64_t>(size("attention.head_count", {}), 1)};
  layer.kv_heads = std::max<int64_t>(size("attention.head_count_kv", static_cast<uint64_t>(layer.heads)), 1);
  const int64_t usual = size("embedding_length", {}) / layer.heads;
  const int64_t latent = size("attention.kv_lora_rank", 0), turned = size("rope.dimension_count", 0);
  layer.d_k = size("attention.key_length", static_cast<uint64_t>(usual));
  layer.d_v = size("attention.value_length", static_cast<uint64_t>(layer.d_k));
  layer.softcap = file.get_float(model.type + ".attn_logit_softcapping", 0);
  layer.sinks = model.type == "gpt-oss";
  model.max_positions = size("context_length", 0);
  model.qk_norm = is_one_of(model.type, {"qwen3", "qwen3moe", "gemma3"});
  model.rope_style = is_one_of(model.type, {"llama", "deepseek2"}) ? FOVEA_ROPE_GPTJ : FOVEA_ROPE_NEOX;
  if (latent > 0) {
    layer.name = "absorbed";
    layer.kv_heads = 1;
    layer.d_k = latent + turned;
    layer.d_v = latent;
    layer.v_in_k = true;
    layer.fresh = false;
    model.rotary_dim = turned;
    model.layers = {layer};
    const int64_t d_k = size("attention.key_length_mla", 0), d_v = size("attention.value_length_mla", 0);
    if (d_k > 0 && d_v > 0) {
      model.layers.push_back(
          {.name = "expanded", .heads = layer.heads, .kv_heads = layer.heads, .d_k = d_k, .d_v = d_v, .cached = false});
    }
    return model;
  }
  if (turned > 0 && turned < layer.d_k) model.rotary_dim = turned;
  const int64_t window = size("attention.sliding_window", 0);
  if (window == 0 || !is_one_of(model.type, {"llama", "phi3"})) model.layers.push_back(layer);
  if (window > 0) {
    layer.name = "sliding";
    layer.window = window;
    model.layers.push_back(layer);
  }
  return model;
}

}  // namespace

ModelAttention parse_config(const std::string& text, const std::string& name) {
  // Deeper documents would take as much stack wherever one of their values is written out.
  const auto shallow = [&](int depth, json::parse_event_t, json&) {
    if (depth > kDeepest) throw Error(name + ": is nested deeper than " + std::to_string(kDeepest));
    return true;
  };
  const json document = json::parse(text, shallow, false);
  if (!document.is_object()) throw Error(name + ": is neither a config.json nor a GGUF file");
  // Models that see and hear have the language model's part inside; types may stand on either level.
  const Fields outer(document, name);
  const json* inner = outer.find({"text_config", "language_config", "llm_config"});
  const Fields fields(inner != nullptr && inner->is_object() ? *inner : document, name);
  ModelAttention model;
  model.type = fields.text({"model_type"});
  if (model.type.empty()) model.type = outer.text({"model_type"});
  model.dtype = dtype_of(fields);
  if (model.dtype == 0) model.dtype = dtype_of(outer);
  model.max_positions = fields.size({"max_position_embeddings", "n_positions", "seq_length", "max_seq_len"});
  model.layers = layers_of(fields, model.type);
  read_rope(fields, model);
  return model;
}

ModelAttention read_model_attention(const std::string& path) {
  std::error_code ignored;
  const std::string file = std::filesystem::is_directory(path, ignored) ? path + "/config.json" : path;
  errno = 0;
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw Error(file + ": cannot open: " + std::strerror(errno));
  char magic[4] = {};
  stream.read(magic, sizeof magic);
  if (stream && std::string_view(magic, sizeof magic) == "GGUF") return read_gguf(file);
  stream.clear();
  stream.seekg(0);
  return parse_config({std::istreambuf_iterator<char>(stream), {}}, file);
}

}  // namespace fovea::app
