// SPDX-License-Identifier: Apache-2.0
// A Llama model of a few thousand random weights as a GGUF image, and the same model computed plainly in f64.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "apps/gguf_writer.h"

namespace fovea::app::test {

struct TinyConfig {
  int layers = 2, hidden = 32, heads = 6, kv_heads = 2, d = 8, ffn = 48, vocab = 261, context = 48;
  bool tied = true, biases = false, rope_freqs = false;
  int window = 0;
  std::string architecture = "llama";  // or qwen2, which turns the two halves of a head
  double theta = 10000.0, eps = 1e-5;
};

class TinyModel {
 public:
  using Matrix = std::vector<float>;  // row-major [outputs, inputs]

  explicit TinyModel(const TinyConfig& config, unsigned seed = 5) : config_(config), rng_(seed) {
    const TinyConfig& c = config_;
    add("token_embd.weight", c.vocab, c.hidden, 1.0);
    add("output_norm.weight", 1, c.hidden, 0.2, 1.0);
    if (!c.tied) add("output.weight", c.vocab, c.hidden, 1.0);
    if (c.rope_freqs) {
      for (int i = 0; i < c.d / 2; ++i) tensors_["rope_freqs.weight"].push_back(1.0f + static_cast<float>(i));
    }
    for (int l = 0; l < c.layers; ++l) {
      const std::string block = "blk." + std::to_string(l) + ".";
      const int q = c.heads * c.d, kv = c.kv_heads * c.d;
      const auto matrix = [&](const char* name, int rows, int columns, bool biased) {
        add(block + name + ".weight", rows, columns, 2.0 / std::sqrt(columns));
        if (biased && c.biases) add(block + name + ".bias", 1, rows, 0.5);
      };
      add(block + "attn_norm.weight", 1, c.hidden, 0.2, 1.0);
      add(block + "ffn_norm.weight", 1, c.hidden, 0.2, 1.0);
      matrix("attn_q", q, c.hidden, true);
      matrix("attn_k", kv, c.hidden, true);
      matrix("attn_v", kv, c.hidden, true);
      matrix("attn_output", c.hidden, q, true);
      matrix("ffn_gate", c.ffn, c.hidden, false);
      matrix("ffn_up", c.ffn, c.hidden, false);
      matrix("ffn_down", c.hidden, c.ffn, false);
    }
  }

  GgufWriter writer() const {
    const TinyConfig& c = config_;
    GgufWriter w;
    const auto u32 = [&](const char* key, int value) { w.u32(c.architecture + key, static_cast<uint32_t>(value)); };
    const auto f32 = [&](const char* key, double value) { w.f32(c.architecture + key, static_cast<float>(value)); };
    w.string("general.architecture", c.architecture);
    u32(".block_count", c.layers);
    u32(".embedding_length", c.hidden);
    u32(".attention.head_count", c.heads);
    u32(".attention.head_count_kv", c.kv_heads);
    u32(".attention.key_length", c.d);
    u32(".attention.value_length", c.d);
    u32(".rope.dimension_count", c.d);
    u32(".feed_forward_length", c.ffn);
    u32(".context_length", c.context);
    if (c.window > 0) u32(".attention.sliding_window", c.window);
    f32(".rope.freq_base", c.theta);
    f32(".attention.layer_norm_rms_epsilon", c.eps);
    add_tokenizer(&w);
    for (const auto& [name, values] : tensors_) {
      std::vector<uint64_t> dims = {values.size()};
      if (const auto it = columns_.find(name); it != columns_.end()) {
        dims = {static_cast<uint64_t>(it->second), values.size() / static_cast<uint64_t>(it->second)};
      }
      w.tensor(name, dims, 0, std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)));
    }
    return w;
  }

  // Logits after the last token of the sequence.
  std::vector<double> logits(const std::vector<int32_t>& tokens) const;

 private:
  void add(const std::string& name, int rows, int columns, double scale, double centre = 0.0) {
    std::normal_distribution<double> draw(centre, scale);
    Matrix& m = tensors_[name];
    for (int i = 0; i < rows * columns; ++i) m.push_back(static_cast<float>(draw(rng_)));
    if (rows > 1) columns_[name] = columns;
  }

  // All 256 bytes as tokens (their ids are not their values), two merges, and control tokens.
  void add_tokenizer(GgufWriter* w) const {
    std::vector<std::string> tokens = {"<|end|>", "<|im_start|>"};
    std::vector<int32_t> types = {3, 3};
    unsigned next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const bool itself = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
      const unsigned code = itself ? byte : next++;
      tokens.push_back(code < 0x80
                           ? std::string(1, static_cast<char>(code))
                           : std::string{static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))});
    }
    tokens.insert(tokens.end(), {"he", "ll", "hell"});
    types.resize(tokens.size(), 1);
    w->string("tokenizer.ggml.model", "gpt2").string("tokenizer.ggml.pre", "gpt-2");
    w->strings("tokenizer.ggml.tokens", tokens).ints("tokenizer.ggml.token_type", types);
    w->strings("tokenizer.ggml.merges", {"h e", "l l", "he ll"}).u32("tokenizer.ggml.eos_token_id", 0);
  }

  const Matrix& at(const std::string& name) const { return tensors_.at(name); }
  std::vector<double> product(const std::string& name, const std::vector<double>& x) const {
    const Matrix& w = at(name + ".weight");
    const size_t rows = w.size() / x.size();
    std::vector<double> out(rows);
    for (size_t r = 0; r < rows; ++r) {
      for (size_t i = 0; i < x.size(); ++i) out[r] += static_cast<double>(w[r * x.size() + i]) * x[i];
      if (tensors_.contains(name + ".bias")) out[r] += static_cast<double>(at(name + ".bias")[r]);
    }
    return out;
  }
  std::vector<double> norm(const std::string& name, const std::vector<double>& x) const {
    double squares = 0;
    for (const double v : x) squares += v * v;
    std::vector<double> out = x;
    for (size_t i = 0; i < x.size(); ++i) {
      out[i] *= static_cast<double>(at(name)[i]) / std::sqrt(squares / static_cast<double>(x.size()) + config_.eps);
    }
    return out;
  }
  // Pair i of a head turns by position * theta^(-2i/d); a pair is two neighbours, or in qwen2 one of each half.
  void rotate(std::vector<double>* x, size_t position) const {
    const auto d = static_cast<size_t>(config_.d);
    const bool halves = config_.architecture == "qwen2";
    for (size_t place = 0; place < x->size() / 2; ++place) {
      const size_t pair = place % (d / 2), head = place / (d / 2) * d;
      const size_t first = head + (halves ? pair : 2 * pair), second = first + (halves ? d / 2 : 1);
      double angle =
          static_cast<double>(position) * std::pow(config_.theta, -2.0 * static_cast<double>(pair) / config_.d);
      if (config_.rope_freqs) angle /= static_cast<double>(at("rope_freqs.weight")[pair]);
      const double a = (*x)[first], b = (*x)[second];
      (*x)[first] = a * std::cos(angle) - b * std::sin(angle);
      (*x)[second] = a * std::sin(angle) + b * std::cos(angle);
    }
  }

  TinyConfig config_;
  std::mt19937 rng_;
  std::map<std::string, Matrix> tensors_;
  std::map<std::string, int> columns_;
};

inline std::vector<double> TinyModel::logits(const std::vector<int32_t>& tokens) const {
  using Vector = std::vector<double>;
  const TinyConfig& c = config_;
  const auto d = static_cast<size_t>(c.d), group = static_cast<size_t>(c.heads / c.kv_heads);
  const auto add_to = [](Vector* x, const Vector& y) {
    for (size_t i = 0; i < y.size(); ++i) (*x)[i] += y[i];
  };
  std::vector<std::vector<Vector>> keys(static_cast<size_t>(c.layers)), values(keys);
  Vector x;
  for (size_t t = 0; t < tokens.size(); ++t) {
    const float* row = at("token_embd.weight").data() + static_cast<size_t>(tokens[t]) * static_cast<size_t>(c.hidden);
    x.assign(row, row + c.hidden);
    for (size_t l = 0; l < keys.size(); ++l) {
      const std::string block = "blk." + std::to_string(l) + ".";
      const Vector h = norm(block + "attn_norm.weight", x);
      Vector q = product(block + "attn_q", h), k = product(block + "attn_k", h);
      rotate(&q, t);
      rotate(&k, t);
      keys[l].push_back(k);
      values[l].push_back(product(block + "attn_v", h));
      Vector attended(q.size());
      const size_t first =
          c.window > 0 && t + 1 > static_cast<size_t>(c.window) ? t + 1 - static_cast<size_t>(c.window) : 0;
      for (size_t head = 0; head < static_cast<size_t>(c.heads); ++head) {
        const size_t kv = head / group * d;
        double sum = 0;
        for (size_t j = first; j <= t; ++j) {
          double logit = 0;
          for (size_t i = 0; i < d; ++i) logit += q[head * d + i] * keys[l][j][kv + i];
          const double p = std::exp(logit / std::sqrt(static_cast<double>(d)));
          sum += p;
          for (size_t i = 0; i < d; ++i) attended[head * d + i] += p * values[l][j][kv + i];
        }
        for (size_t i = 0; i < d; ++i) attended[head * d + i] /= sum;
      }
      add_to(&x, product(block + "attn_output", attended));
      const Vector m = norm(block + "ffn_norm.weight", x);
      Vector gate = product(block + "ffn_gate", m);
      const Vector up = product(block + "ffn_up", m);
      for (size_t i = 0; i < gate.size(); ++i) gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
      add_to(&x, product(block + "ffn_down", gate));
    }
  }
  return product(c.tied ? "token_embd" : "output", norm("output_norm.weight", x));
}

}  // namespace fovea::app::test
