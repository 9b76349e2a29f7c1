// SPDX-License-Identifier: Apache-2.0
// What is measured: the sizes and variants of every operation in one struct, and the table of options that set them.
// The command line, its help, the presets and the JSON output all follow from that table.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "fovea/fovea.h"

namespace fovea::bench {

// A number under a name. Values are those of the library's enums, or of the enums below.
struct Word {
  const char* name;
  int32_t value;
};

enum Layout : int32_t { kNhd, kHnd };  // pages as [token, head, dim] or [head, token, dim]
inline constexpr int32_t kAuto = -1;

struct Shape {
  int64_t batch = 8;         // sequences
  int64_t q_len = 1;         // new tokens of each sequence
  int64_t kv_len = 4096;     // tokens of each sequence in the cache, the new ones included
  int64_t heads = 32;        // of Q
  int64_t kv_heads = 8;      // of K and V
  int64_t head_dim = 128;    // of Q and K
  int64_t head_dim_v = 0;    // of V; 0 = head_dim
  int64_t page_size = 16;    // tokens; 0 = contiguous
  int64_t pages = 64;        // copied by kv_copy
  int64_t parts = 4;         // merged by merge_states
  int64_t hidden = 4096;     // of norm and embed
  int64_t ffn = 14336;       // of glu
  int64_t n = 4096;          // of matmul and quantize: rows of the weight
  int64_t k = 4096;          // of matmul and quantize: columns of the weight
  int64_t vocab = 128256;    // of embed, sample and verify
  int64_t window = 0;        // keys seen by a query, itself included; 0 = all
  int64_t chunk = 0;         // tokens of a chunk; 0 = none
  int64_t split_size = 0;    // keys per split; 0 = chosen
  int64_t rotary_dim = 0;    // 0 = head_dim
  int64_t scale_group = 32;  // dims per scale of kind group
  int64_t top_k = 0;
  int64_t history = 0;   // tokens of each sequence that sample and verify penalise; 0 = no penalties
  int64_t biases = 0;    // entries of each row's logit bias
  int64_t logprobs = 0;  // likeliest tokens that sample lists; 0 = no log-probabilities
  int64_t drafts = 4;    // of each sequence, for verify
  double softcap = 0;
  double temperature = 0.8;
  double top_p = 1;
  double min_p = 0;
  bool v_in_k = false;
  bool alibi = false;
  bool sinks = false;
  bool lse = false;
  bool mask_bits = false;
  bool draft_probs = false;
  bool probs = false;
  bool batch_invariant = false;
  bool chunk_invariant = false;
  bool rope = false;
  bool qk_norm = false;
  bool residual = false;
  bool bias = false;
  int32_t type = FOVEA_F32;             // of activations
  int32_t q_type = FOVEA_F32;           // of Q in attention
  int32_t out_type = kAuto;             // of attention's output; kAuto = q_type
  int32_t w_type = FOVEA_F16;           // of weights and embedding tables
  int32_t quantized_type = FOVEA_Q8_0;  // of quantize's output
  int32_t codec = FOVEA_CODEC_F16;      // of K and V
  int32_t scale_kind = kAuto;           // of K and V; kAuto = what the codec needs
  int32_t layout = kNhd;
  int32_t mask = FOVEA_MASK_CAUSAL;
  int32_t norm_kind = FOVEA_NORM_RMS;
  int32_t gate_kind = FOVEA_GATE_NONE;
  int32_t glu_kind = FOVEA_GLU_SILU;
  int32_t rope_style = FOVEA_ROPE_NEOX;
  std::string kernel;  // of attention: a family by name; empty = chosen

  int64_t tokens() const { return batch * q_len; }
  int64_t d_v() const { return head_dim_v ? head_dim_v : head_dim; }
  bool has_codes() const { return codec >= FOVEA_CODEC_I8 && codec <= FOVEA_CODEC_Q2; }  // K and V lie in records
  int32_t output_type() const { return out_type == kAuto ? q_type : out_type; }
  int32_t kv_scale_kind() const {
    if (scale_kind != kAuto) return scale_kind;
    if (has_codes()) return FOVEA_SCALE_TOKEN_HEAD;
    return codec == FOVEA_CODEC_FP8 ? FOVEA_SCALE_TENSOR : FOVEA_SCALE_NONE;
  }
};

struct Whole {  // an option that takes a whole number
  int64_t Shape::*field;
  int64_t min, max;
};
struct Real {
  double Shape::*field;
  double min, max;
};
struct Flag {
  bool Shape::*field;
};
struct Choice {
  int32_t Shape::*field;
  std::span<const Word> words;
};
struct Text {  // what the library takes by name, and refuses by name
  std::string Shape::*field;
};

struct Option {
  const char* name;  // "--q-len"
  uint32_t ops;      // bit 1 << fovea_op of each operation that has it
  std::variant<Whole, Real, Flag, Choice, Text> kind;
  const char* help;
  bool applies_to(int32_t op) const { return (ops >> op) & 1u; }
  const char* key() const { return name + 2; }
};

std::span<const Option> options();
// Rows of the library's tables, under their names.
std::span<const Word> operations();
std::span<const Word> float_types();      // f32, f16, bf16
std::span<const Word> vector_types();     // those and e4m3
std::span<const Word> weight_types();     // floats, e4m3 and block types
std::span<const Word> quantized_types();  // e4m3 and block types
std::span<const Word> codecs();
std::span<const Word> scale_kinds();

// Throws app::Error: "--kv is f15: must be one of f32, f16, bf16, fp8".
void set_option(Shape& shape, const Option& option, const std::string& value);
std::string option_text(const Shape& shape, const Option& option);
// Throws app::Error where options contradict each other.
void check_shape(int32_t op, const Shape& shape);

// A model in a phase of its work: sizes for every operation.
struct Preset {
  std::string name;     // "llama8b-decode"
  std::string options;  // as on the command line
};
const std::vector<Preset>& presets();
// Sets the options of the preset that `op` has. Throws app::Error for an unknown name.
void apply_preset(int32_t op, std::string_view name, Shape& shape);

}  // namespace fovea::bench
