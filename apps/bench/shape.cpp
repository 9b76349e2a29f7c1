// SPDX-License-Identifier: Apache-2.0
#include "bench/shape.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>

#include "engine/error.h"

namespace fovea::bench {

namespace {

using app::Error;

constexpr Word kOperations[] = {
#define FOVEA_OP(name, Name, NAME, value, text) {#name, value},
#include "fovea/operations.def"
#undef FOVEA_OP
};
constexpr Word kCodecs[] = {
#define FOVEA_CODEC(name, NAME, value, dtype) {#name, value},
#include "fovea/codecs.def"
#undef FOVEA_CODEC
};
constexpr Word kScaleKinds[] = {
#define FOVEA_SCALE_KIND(name, NAME, value, text) {#name, value},
#include "fovea/scale_kinds.def"
#undef FOVEA_SCALE_KIND
};

struct Dtype {
  Word word;
  int64_t block;
};
constexpr Dtype kDtypes[] = {
#define FOVEA_DTYPE(name, NAME, value, block, bytes) {{#name, value}, block},
#include "fovea/dtypes.def"
#undef FOVEA_DTYPE
};

constexpr bool is_float(const Dtype& t) {
  return t.word.value == FOVEA_F32 || t.word.value == FOVEA_F16 || t.word.value == FOVEA_BF16;
}
constexpr bool is_vector(const Dtype& t) {
  return is_float(t) || t.word.value == FOVEA_E4M3;
}
constexpr bool is_block(const Dtype& t) {
  return t.block > 1;
}
constexpr bool is_quantized(const Dtype& t) {
  return is_block(t) || t.word.value == FOVEA_E4M3;
}
constexpr bool is_weight(const Dtype& t) {
  return is_vector(t) || is_block(t);
}

template <bool (*keep)(const Dtype&)>
constexpr auto dtypes_that() {
  std::array<Word, std::count_if(std::begin(kDtypes), std::end(kDtypes), keep)> words{};
  size_t i = 0;
  for (const Dtype& t : kDtypes) {
    if (keep(t)) words[i++] = t.word;
  }
  return words;
}
constexpr auto kFloats = dtypes_that<is_float>();
constexpr auto kVectors = dtypes_that<is_vector>();
constexpr auto kWeights = dtypes_that<is_weight>();
constexpr auto kQuantized = dtypes_that<is_quantized>();

constexpr Word kLayouts[] = {{"nhd", kNhd}, {"hnd", kHnd}};
constexpr Word kMasks[] = {{"none", FOVEA_MASK_NONE}, {"causal", FOVEA_MASK_CAUSAL}};
constexpr Word kNorms[] = {{"rms", FOVEA_NORM_RMS}, {"layer", FOVEA_NORM_LAYER}, {"l2", FOVEA_NORM_L2}};
constexpr Word kGates[] = {{"none", FOVEA_GATE_NONE}, {"silu", FOVEA_GATE_SILU}, {"sigmoid", FOVEA_GATE_SIGMOID}};
constexpr Word kGlus[] = {{"silu", FOVEA_GLU_SILU},
                          {"gelu_tanh", FOVEA_GLU_GELU_TANH},
                          {"gelu_erf", FOVEA_GLU_GELU_ERF},
                          {"clamped_swiglu", FOVEA_GLU_CLAMPED_SWIGLU}};
constexpr Word kRopes[] = {{"neox", FOVEA_ROPE_NEOX}, {"gptj", FOVEA_ROPE_GPTJ}};

constexpr uint32_t kAttention = 1u << FOVEA_OP_ATTENTION, kMerge = 1u << FOVEA_OP_MERGE_STATES,
                   kAppend = 1u << FOVEA_OP_KV_APPEND, kCopy = 1u << FOVEA_OP_KV_COPY, kRope = 1u << FOVEA_OP_ROPE,
                   kNorm = 1u << FOVEA_OP_NORM, kGlu = 1u << FOVEA_OP_GLU, kMatmul = 1u << FOVEA_OP_MATMUL,
                   kEmbed = 1u << FOVEA_OP_EMBED, kSample = 1u << FOVEA_OP_SAMPLE, kVerify = 1u << FOVEA_OP_VERIFY,
                   kQuantize = 1u << FOVEA_OP_QUANTIZE, kDraw = kSample | kVerify;
constexpr int64_t kMaxTokens = int64_t{1} << 30;  // index tensors are i32
constexpr uint32_t kCaches = kAttention | kAppend | kCopy;
constexpr uint32_t kRows = kAttention | kMerge | kAppend | kRope | kNorm | kGlu | kMatmul | kEmbed;
constexpr uint32_t kHeads = kAttention | kMerge | kAppend | kRope;

// Upper limits keep every product of sizes below 2^63, and tell a slip of the keyboard from a size.
using S = Shape;
constexpr Option kOptions[] = {
    {"--batch", kRows | kDraw, Whole{&S::batch, 1, 1 << 14}, "sequences"},
    {"--q-len", kRows, Whole{&S::q_len, 1, 1 << 20}, "new tokens of each sequence"},
    {"--kv-len", kAttention | kAppend, Whole{&S::kv_len, 1, 1 << 24}, "tokens of each sequence, the new ones included"},
    {"--heads", kHeads, Whole{&S::heads, 1, 1 << 10}, "heads of Q"},
    {"--kv-heads", kCaches, Whole{&S::kv_heads, 1, 1 << 9}, "heads of K and V"},
    {"--head-dim", kHeads | kCopy, Whole{&S::head_dim, 1, 1 << 11}, "dims of a head of Q and K"},
    {"--head-dim-v", kCaches, Whole{&S::head_dim_v, 0, 1 << 11}, "dims of a head of V; 0: --head-dim"},
    {"--v-in-k", kCaches, Flag{&S::v_in_k}, "V is the first dims of K (MLA)"},
    {"--page-size", kCaches, Whole{&S::page_size, 0, 1 << 24}, "tokens of a page; 0: contiguous"},
    {"--layout", kCaches, Choice{&S::layout, kLayouts}, "order inside a page"},
    {"--kv", kCaches, Choice{&S::codec, kCodecs}, "how K and V are stored"},
    {"--kv-scale", kCaches, Choice{&S::scale_kind, kScaleKinds}, "what one scale of K and V covers"},
    {"--kv-scale-group", kCaches, Whole{&S::scale_group, 1, 1 << 11}, "dims of a scale of kind group"},
    {"--q-type", kAttention, Choice{&S::q_type, kVectors}, "type of Q"},
    {"--out-type", kAttention, Choice{&S::out_type, kVectors}, "type of the output"},
    {"--mask", kAttention, Choice{&S::mask, kMasks}, "which keys a query sees"},
    {"--window", kAttention, Whole{&S::window, 0, 1 << 24}, "causal: keys a query sees, its own included; 0: all"},
    {"--chunk-size", kAttention, Whole{&S::chunk, 0, 1 << 24}, "causal inside chunks of so many tokens; 0: off"},
    {"--mask-bits", kAttention | kDraw, Flag{&S::mask_bits},
     "a packed mask over new tokens (tree drafts), or over ids"},
    {"--softcap", kAttention, Real{&S::softcap, 0, 1e6}, "cap of the logits; 0: off"},
    {"--alibi", kAttention, Flag{&S::alibi}, "ALiBi slopes"},
    {"--sinks", kAttention | kMerge, Flag{&S::sinks}, "attention sinks"},
    {"--lse", kAttention | kMerge, Flag{&S::lse}, "also write the LSE"},
    {"--split-size", kAttention, Whole{&S::split_size, 0, 1 << 24}, "keys of a split; 0: chosen"},
    {"--batch-invariant", kAttention, Flag{&S::batch_invariant}, "bits do not depend on batch mates"},
    {"--chunk-invariant", kAttention, Flag{&S::chunk_invariant}, "bits do not depend on chunking"},
    {"--kernel", kAttention, Text{&S::kernel}, "use this kernel family; empty: chosen"},
    {"--parts", kMerge, Whole{&S::parts, 1, FOVEA_MAX_PARTS}, "partial outputs"},
    {"--pages", kCopy, Whole{&S::pages, 1, 1 << 20}, "pages to copy"},
    {"--rope", kAppend, Flag{&S::rope}, "rotate K, and Q"},
    {"--qk-norm", kAppend, Flag{&S::qk_norm}, "norm K, and Q"},
    {"--rope-style", kAppend | kRope, Choice{&S::rope_style, kRopes}, "halves or adjacent pairs"},
    {"--rotary-dim", kAppend | kRope, Whole{&S::rotary_dim, 0, 1 << 11}, "dims that turn; 0: all"},
    {"--hidden", kNorm | kEmbed, Whole{&S::hidden, 1, 1 << 20}, "dims of a row"},
    {"--norm", kNorm, Choice{&S::norm_kind, kNorms}, "which norm"},
    {"--activation", kGlu, Choice{&S::glu_kind, kGlus}, "of the gate"},
    {"--residual", kNorm, Flag{&S::residual}, "add a residual and write the sum"},
    {"--gate", kNorm, Choice{&S::gate_kind, kGates}, "activation of the gate that multiplies the result"},
    {"--ffn", kGlu, Whole{&S::ffn, 1, 1 << 20}, "dims of a row"},
    {"--n", kMatmul | kQuantize, Whole{&S::n, 1, 1 << 22}, "rows of the weight"},
    {"--k", kMatmul | kQuantize, Whole{&S::k, 1, 1 << 22}, "columns of the weight"},
    {"--bias", kMatmul, Flag{&S::bias}, "add a bias"},
    {"--w-type", kMatmul | kEmbed, Choice{&S::w_type, kWeights},
     "type of the weight or table; e4m3 with one scale a row"},
    {"--to", kQuantize, Choice{&S::quantized_type, kQuantized},
     "type of the quantised weight; e4m3 with one scale a row"},
    {"--vocab", kEmbed | kDraw, Whole{&S::vocab, 1, 1 << 24}, "rows of the table, or logits"},
    {"--temperature", kDraw, Real{&S::temperature, 0, 1e6}, "0: greedy"},
    {"--top-k", kDraw, Whole{&S::top_k, 0, 1 << 24}, "0: off"},
    {"--top-p", kDraw, Real{&S::top_p, 0, 1}, "1: off"},
    {"--min-p", kDraw, Real{&S::min_p, 0, 1}, "0: off"},
    {"--penalties", kDraw, Whole{&S::history, 0, 1 << 20}, "earlier tokens of each sequence to penalise; 0: off"},
    {"--logit-bias", kDraw, Whole{&S::biases, 0, 1 << 20}, "entries of each sequence's logit bias; 0: off"},
    {"--logprobs", kSample, Whole{&S::logprobs, 0, 1 << 20}, "likeliest tokens to list; 0: off"},
    {"--probs", kSample, Flag{&S::probs}, "also write the probabilities"},
    {"--drafts", kVerify, Whole{&S::drafts, 1, 1 << 10}, "of each sequence, a chain"},
    {"--draft-probs", kVerify, Flag{&S::draft_probs}, "drafts were drawn from distributions"},
    {"--type", (kRows & ~kAttention) | kDraw | kQuantize, Choice{&S::type, kFloats},
     "type of activations; of quantize, of the weight"},
};

template <class T>
T number(const std::string& value, const char* name, T min, T max) {
  T x{};
  const char* end = value.data() + value.size();
  const auto parsed = std::from_chars(value.data(), end, x);
  if (parsed.ec == std::errc() && parsed.ptr == end && x >= min && x <= max) return x;
  std::ostringstream text;
  text << name << " is " << value << ": must be a number from " << min << " to " << max;
  throw Error(text.str());
}

int32_t choice(const std::string& value, const char* name, std::span<const Word> words) {
  std::string allowed;
  for (const Word& word : words) {
    if (value == word.name) return word.value;
    allowed += (allowed.empty() ? "" : ", ") + std::string(word.name);
  }
  throw Error(std::string(name) + " is " + value + ": must be one of " + allowed);
}

struct Setter {
  Shape& shape;
  const Option& option;
  const std::string& value;
  void operator()(const Whole& o) const { shape.*o.field = number(value, option.name, o.min, o.max); }
  void operator()(const Real& o) const { shape.*o.field = number(value, option.name, o.min, o.max); }
  void operator()(const Flag& o) const {
    static constexpr Word kAnswers[] = {{"true", 1}, {"false", 0}};
    shape.*o.field = choice(value, option.name, kAnswers) != 0;
  }
  void operator()(const Choice& o) const { shape.*o.field = choice(value, option.name, o.words); }
  void operator()(const Text& o) const { shape.*o.field = value; }
};

struct Writer {
  const Shape& shape;
  std::string operator()(const Whole& o) const { return std::to_string(shape.*o.field); }
  std::string operator()(const Real& o) const {
    std::ostringstream text;
    text << shape.*o.field;
    return text.str();
  }
  std::string operator()(const Flag& o) const { return shape.*o.field ? "true" : "false"; }
  std::string operator()(const Text& o) const { return shape.*o.field; }
  std::string operator()(const Choice& o) const {
    for (const Word& word : o.words) {
      if (word.value == shape.*o.field) return word.name;
    }
    return "auto";
  }
};

// Sizes of models, and how a model works: a preset is one of each.
struct Row {
  const char* name;
  const char* options;
};
constexpr Row kModels[] = {
    {"smollm2", "--heads 9 --kv-heads 3 --head-dim 64 --hidden 576 --ffn 1536 --n 1536 --k 576 --vocab 49152"},
    {"llama8b", "--heads 32 --kv-heads 8 --head-dim 128 --hidden 4096 --ffn 14336 --n 14336 --k 4096 --vocab 128256"},
    {"gemma2-9b",
     "--heads 16 --kv-heads 8 --head-dim 256 --hidden 3584 --ffn 14336 --activation gelu_tanh --n 14336 --k 3584 "
     "--vocab 256000 --window 4096 --softcap 50"},
    {"gpt-oss-20b",
     "--heads 64 --kv-heads 8 --head-dim 64 --hidden 2880 --ffn 2880 --activation clamped_swiglu --n 5760 --k 2880 "
     "--vocab 201088 --window 128 --sinks --bias"},
    {"deepseek-v2-lite",
     "--heads 16 --kv-heads 1 --head-dim 576 --head-dim-v 512 --v-in-k --rotary-dim 64 --hidden 2048 --ffn 10944 "
     "--n 10944 --k 2048 --vocab 102400"},
};
constexpr Row kPhases[] = {
    {"decode", "--batch 8 --q-len 1 --kv-len 4096"},
    {"prefill", "--batch 1 --q-len 512 --kv-len 512"},
    {"append", "--batch 1 --q-len 64 --kv-len 4096"},
};

std::vector<Preset> make_presets() {
  std::vector<Preset> all;
  for (const Row& model : kModels) {
    for (const Row& phase : kPhases) {
      all.push_back({std::string(model.name) + "-" + phase.name, std::string(phase.options) + " " + model.options});
    }
  }
  return all;
}

}  // namespace

std::span<const Option> options() {
  return kOptions;
}
std::span<const Word> operations() {
  return kOperations;
}
std::span<const Word> float_types() {
  return kFloats;
}
std::span<const Word> vector_types() {
  return kVectors;
}
std::span<const Word> weight_types() {
  return kWeights;
}
std::span<const Word> quantized_types() {
  return kQuantized;
}
std::span<const Word> codecs() {
  return kCodecs;
}
std::span<const Word> scale_kinds() {
  return kScaleKinds;
}

void set_option(Shape& shape, const Option& option, const std::string& value) {
  std::visit(Setter{shape, option, value}, option.kind);
}

std::string option_text(const Shape& shape, const Option& option) {
  return std::visit(Writer{shape}, option.kind);
}

void check_shape(int32_t op, const Shape& s) {
  if (op == FOVEA_OP_ATTENTION) {
    if (s.mask != FOVEA_MASK_CAUSAL && (s.window > 0 || s.chunk > 0)) {
      throw Error("--mask is none: --window and --chunk-size need --mask causal");
    }
    if (s.window > 0 && s.chunk > 0) throw Error("--chunk-size is given: not together with --window");
  }
  if ((op == FOVEA_OP_ATTENTION || op == FOVEA_OP_KV_APPEND) && s.kv_len < s.q_len) {
    throw Error("--kv-len is " + std::to_string(s.kv_len) + ": must be at least --q-len, " + std::to_string(s.q_len));
  }
  if (s.batch * s.kv_len > kMaxTokens || s.tokens() > kMaxTokens) {
    throw Error("--batch is " + std::to_string(s.batch) + ": more than 2^30 tokens in all");
  }
}

const std::vector<Preset>& presets() {
  static const std::vector<Preset> all = make_presets();
  return all;
}

void apply_preset(int32_t op, std::string_view name, Shape& shape) {
  const auto preset = std::find_if(presets().begin(), presets().end(), [&](const Preset& p) { return p.name == name; });
  if (preset == presets().end()) {
    throw Error("--preset is " + std::string(name) + ": `fovea bench --list-presets` names them");
  }
  std::istringstream words(preset->options);
  for (std::string word; words >> word;) {
    const auto of_op = [&](const Option& o) { return word == o.name && o.applies_to(op); };
    const auto option = std::find_if(std::begin(kOptions), std::end(kOptions), of_op);
    std::string value = "true";
    words >> std::ws;
    if (words.good() && words.peek() != '-') words >> value;
    if (option != std::end(kOptions)) set_option(shape, *option, value);
  }
}

}  // namespace fovea::bench
