// SPDX-License-Identifier: Apache-2.0
// What a model asks of attention, read from its configuration: a Hugging Face config.json or the metadata of a GGUF
// file.
#pragma once

#include <fovea/fovea.h>
#include <cstdint>
#include <string>
#include <vector>

namespace fovea::app {

// Layers that are alike, in the phases that they take part in.
struct AttentionLayers {
  std::string name;  // "full", "sliding", "chunked"; of MLA "absorbed" and "expanded"
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t d_k = 0;  // of a head of Q and K
  int64_t d_v = 0;
  int64_t window = 0;  // keys a query sees, itself included; 0 = all
  int64_t chunk = 0;   // tokens of a chunk; 0 = none
  double softcap = 0;  // 0 = off
  bool sinks = false;
  bool alibi = false;
  bool v_in_k = false;  // V is the first d_v dims of K
  bool cached = true;   // read from the cache: decode and chunked prefill
  bool fresh = true;    // read as they were computed: prefill
};

struct ModelAttention {
  std::string type;           // "llama"
  int32_t dtype = 0;          // of activations; 0: the file does not say
  int64_t max_positions = 0;  // 0: the file does not say
  bool rope = true;
  bool qk_norm = false;    // per head
  int64_t rotary_dim = 0;  // 0 = all of d_k
  int32_t rope_style = FOVEA_ROPE_NEOX;
  std::vector<AttentionLayers> layers;
};

// `path` is a file or a folder that holds a config.json. Throws Error, which names the file and the field.
ModelAttention read_model_attention(const std::string& path);
// `name` stands for the file in messages.
ModelAttention parse_config(const std::string& text, const std::string& name);

}  // namespace fovea::app
