// SPDX-License-Identifier: Apache-2.0
// One forward pass of a Llama model over a ragged batch. A Graph plans every operation once, for the largest batch it
// will see; a step then only sets the number of rows and runs the plans.
#pragma once

#include <cstdint>
#include <fovea/fovea.hpp>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kv_cache.h"
#include "model.h"

namespace fovea::app {

struct GraphLimits {
  int64_t tokens = 0;      // rows of a step, over all sequences
  int64_t sequences = 0;   // of a step
  int64_t q_len = 0;       // rows of one sequence in a step
  int64_t kv_len = 0;      // tokens of one sequence in the cache
  int64_t logit_rows = 0;  // rows of a step whose logits are wanted; 0: one of each sequence
  bool invariant = false;  // attention whose bits depend neither on batch mates nor on chunking
};

// Sequence b owns rows [cu_seqlens_q[b], cu_seqlens_q[b + 1]); kv_lens[b] counts its tokens with those of this step.
struct Batch {
  std::vector<int32_t> ids;                       // [tokens]
  std::vector<int32_t> positions;                 // [tokens]
  std::vector<int64_t> slots;                     // [tokens] where K and V of the token go: page * page_size + offset
  std::vector<int32_t> cu_seqlens_q{0};           // [sequences + 1]
  std::vector<int32_t> kv_lens;                   // [sequences]
  std::vector<std::vector<int64_t>> page_tables;  // [sequences] page ids
  std::vector<int64_t> logit_rows;                // rows whose logits are wanted
};

// An operation with its plan. The parameters point at buffers that stay where they are.
template <class Params>
struct Planned {
  Params params;
  Plan<Params> plan;
  Planned(const Context& context, const Params& p) : params(p), plan(context, p) {}
};

class Graph {
 public:
  Graph(const Context& context, const Model& model, const KvCache& cache, const GraphLimits& limits);
  Graph(const Graph&) = delete;  // the plans' parameters point into this object
  Graph& operator=(const Graph&) = delete;

  // Returns the logits, f32 [logit_rows, vocab]; they stay valid until the next call.
  std::span<const float> forward(const Batch& batch);

  const GraphLimits& limits() const { return limits_; }
  int64_t activation_bytes() const;  // with the workspace, without logits
  int64_t logit_bytes() const;

  // Which kernels run: what the plan says of itself ("operation: kernel, why") -> calls per step.
  using Kernels = std::map<std::string, int>;
  void add_kernels(Kernels* kernels) const;

 private:
  struct Layer {
    Planned<NormParams> attn_norm;  // of the residual stream, to which it first adds what the layer before put out
    Planned<MatmulParams> q, k, v;
    Planned<KvAppendParams> append;  // rotates Q and K, stores K and V
    Planned<AttentionParams> attention;
    Planned<MatmulParams> o;
    Planned<NormParams> ffn_norm;
    Planned<MatmulParams> gate, up;
    Planned<GluParams> glu;
    Planned<MatmulParams> down;
  };

  void allocate(const ModelConfig& config);
  Layer plan_layer(const Context& context, const Model& model, size_t index);
  void bind(const Batch& batch);
  void run_layer(Layer& layer);
  template <class Params>
  void run(Planned<Params>& op);
  template <class Function>
  void for_each_op(Function function) const;

  Tensor rows(const std::vector<float>& buffer, int64_t columns) const;
  Tensor heads(const std::vector<float>& buffer, int64_t heads, int64_t d) const;

  GraphLimits limits_;
  int64_t vocab_, hidden_;
  int64_t page_columns_;  // of the page table
  HostWorkspace workspace_;

  // Activations, [tokens, ..]: the residual stream, what is added to it next, its norm, and the insides of a layer.
  std::vector<float> x_, delta_, normed_, q_, k_, v_, attended_, gate_, up_;
  std::vector<float> last_, logits_;  // [logit_rows, ..]
  std::vector<int32_t> ids_, positions_, cu_seqlens_q_, kv_lens_, page_table_;
  std::vector<int64_t> slots_;
  std::vector<Kv> kvs_;  // one per layer

  std::optional<Planned<EmbedParams>> embed_;
  std::vector<Layer> layers_;
  std::optional<Planned<NormParams>> output_norm_;
  std::optional<Planned<MatmulParams>> output_;
  int64_t tokens_ = 0, sequences_ = 0;  // of the step that runs
};

}  // namespace fovea::app
