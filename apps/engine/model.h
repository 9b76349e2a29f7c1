// SPDX-License-Identifier: Apache-2.0
// The weights of a GGUF file of the Llama family as tensors that Fovea's operations take. Nothing is copied or
// converted, unless it is to be quantised: every tensor points into the mapped file.
#pragma once

#include <cstddef>
#include <fovea/fovea.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "gguf.h"

namespace fovea::app {

struct ModelConfig {
  int64_t layers = 0;
  int64_t hidden = 0;    // width of the residual stream
  int64_t heads = 0;     // query heads
  int64_t kv_heads = 0;  // each serves heads / kv_heads query heads
  int64_t d_k = 0;       // dims of Q and K per head
  int64_t d_v = 0;
  int64_t ffn = 0;  // width of the gated MLP
  int64_t vocab = 0;
  int64_t context = 0;  // positions the model was trained for
  int64_t window = 0;   // keys a query sees, itself included; 0 = all
  float norm_eps = 0;
};

// [outputs, inputs], as `w` and `w_scale` of matmul. A file has no scales: they come with e4m3, one of each output.
struct Matrix {
  Tensor values, scale;
};

// Biases are absent (dtype 0) in most models.
struct LayerWeights {
  Tensor attn_norm;
  Matrix wq;
  Tensor bq;
  Matrix wk;
  Tensor bk;
  Matrix wv;
  Tensor bv;
  Matrix wo;
  Tensor bo;
  Tensor ffn_norm;
  Matrix w_gate, w_up, w_down;
};

// What the tensors of one type take in memory; scales count with the matrices they are of.
struct WeightUse {
  int32_t dtype;
  int64_t tensors, bytes;
};

class Model {
 public:
  // Another architecture, a missing tensor, one of a wrong shape or type, or one that the graph would not use: Error.
  explicit Model(Gguf file);

  // Puts the matrices of the linear layers, the output's included, into `type` (e4m3 or a block type), and gives the
  // memory of what the file has in their place back. An embedding table that is the output's matrix too goes with it;
  // one that is not, norms and biases stay. type_for_rows says what a matrix becomes. A weight that is not finite:
  // Error.
  void quantize(const Context& context, int32_t type);
  std::vector<WeightUse> weights() const;  // by type, the largest first

  const Gguf& file() const { return file_; }
  const ModelConfig& config() const { return config_; }
  const std::vector<LayerWeights>& layers() const { return layers_; }
  const Matrix& embedding() const { return embedding_; }  // [vocab, hidden]
  const Tensor& output_norm() const { return output_norm_; }
  const Matrix& output() const { return output_; }  // [vocab, hidden]; the embedding where the two are tied
  const RopeConfig& rope() const { return rope_; }

 private:
  std::string key(std::string_view name) const;  // of metadata: "llama.block_count"
  void read_config();
  void read_rope();
  void read_weights();
  Tensor find(const std::string& name, std::vector<int64_t> shape);
  Tensor need(const std::string& name, std::vector<int64_t> shape);
  void quantize_matrix(const Context& context, int32_t type, const std::string& name, Matrix& matrix);

  Gguf file_;
  std::string architecture_;
  ModelConfig config_;
  std::vector<LayerWeights> layers_;
  Matrix embedding_, output_;
  Tensor output_norm_;
  RopeConfig rope_;
  std::vector<float> rope_factors_;                // per-pair divisors of the angles; empty: none
  size_t used_ = 0;                                // tensors of the file that have been looked up
  std::vector<std::vector<std::byte>> quantized_;  // what is not in the file
};

}  // namespace fovea::app
