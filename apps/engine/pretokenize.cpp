// SPDX-License-Identifier: Apache-2.0
#include "pretokenize.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <utility>

#include "error.h"
#include "quoted.h"

namespace fovea::app {
namespace {

// Unicode White_Space, spelled out because PCRE2's \s also holds U+180E; S goes inside a class, so that \S is [^S].
#define S "\\t-\\r\\x{85}\\p{Z}"
#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define TAIL "[" S "]*[\\r\\n]+|[" S "]+(?![^" S "])|[" S "]+"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define LEAD "[^\\r\\n\\p{L}\\p{N}]?"
#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" S "\\p{L}\\p{N}]+|[" S "]+(?![^" S "])|[" S "]+"

using Row = std::string_view;

constexpr Row kGpt2Names[] = {"gpt-2",    "phi-2",           "mpt",     "olmo",   "jais",
                              "trillion", "granite-docling", "jina-es", "jina-de"};
constexpr Row kGpt2[] = {GPT2};

constexpr Row kDigitNames[] = {"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"};
constexpr Row kDigit[] = {"\\p{N}", GPT2};

constexpr Row kDefaultNames[] = {"default"};
constexpr Row kDefault[] = {"[\\p{P}$+<=>^~|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"};

constexpr Row kFalconNames[] = {"falcon"};
constexpr Row kFalcon[] = {"[\\p{P}$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]"};

constexpr Row kLlama3Names[] = {"llama-bpe", "llama3", "llama-v3", "falcon3"};
constexpr Row kGlmNames[] = {"chatglm-bpe", "glm4", "dbrx", "smaug-bpe"};
constexpr Row kLlama3[] = {CONTRACTION "|" LEAD "\\p{L}+|\\p{N}{1,3}| ?[^" S "\\p{L}\\p{N}]+[\\r\\n]*|" TAIL};

constexpr Row kQwen2Names[] = {"qwen2", "deepseek-r1-qwen", "stablelm2", "hunyuan", "grok-2"};
constexpr Row kQwen2[] = {CONTRACTION "|" LEAD "\\p{L}+|\\p{N}| ?[^" S "\\p{L}\\p{N}]+[\\r\\n]*|" TAIL};

constexpr Row kQwen35Names[] = {"qwen35"};
constexpr Row kQwen35[] = {CONTRACTION "|" LEAD "[\\p{L}\\p{M}]+|\\p{N}| ?[^" S "\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" TAIL};

constexpr Row kTekkenNames[] = {"tekken"};
constexpr Row kTekken[] = {LEAD UPPER "*" LOWER "+|" LEAD UPPER "+" LOWER "*|\\p{N}| ?[^" S
                                      "\\p{L}\\p{N}]+[\\r\\n/]*|" TAIL};

constexpr Row kGpt4oNames[] = {"gpt-4o", "llama4"};
constexpr Row kGpt4o[] = {LEAD UPPER "*" LOWER "+" CONTRACTION "?|" LEAD UPPER "+" LOWER "*" CONTRACTION
                                     "?|\\p{N}{1,3}| ?[^" S "\\p{L}\\p{N}]+[\\r\\n/]*|" TAIL};

constexpr Row kDeepseek3Names[] = {"deepseek-v3", "hunyuan-dense"};
constexpr Row kDeepseek3[] = {"\\p{N}{1,3}", "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+",
                              "[!-/:-@\\[-`{-~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
                              "?[\\p{P}\\p{S}]+[\\r\\n]*|" TAIL};

constexpr Row kDeepseekCoderNames[] = {"deepseek-coder"};
constexpr Row kDeepseekCoder[] = {"[\\r\\n]", "[" S "]?\\p{L}+", "[" S "]?\\p{P}+",
                                  "[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+", "\\p{N}"};

#undef S
#undef CONTRACTION
#undef TAIL
#undef UPPER
#undef LOWER
#undef LEAD
#undef GPT2

constexpr PreTokenizerKind kKinds[] = {
    {kGpt2Names, kGpt2},
    {kDigitNames, kDigit},
    {kDefaultNames, kDefault},
    {kFalconNames, kFalcon},
    {kLlama3Names, kLlama3, true, true},
    {kGlmNames, kLlama3},
    {kQwen2Names, kQwen2},
    {kQwen35Names, kQwen35},
    {kTekkenNames, kTekken, true, true},
    {kGpt4oNames, kGpt4o},
    {kDeepseek3Names, kDeepseek3},
    {kDeepseekCoderNames, kDeepseekCoder},
};

const PreTokenizerKind& find_kind(std::string_view name, const std::string& file) {
  std::string known;
  for (const PreTokenizerKind& kind : kKinds) {
    for (const std::string_view candidate : kind.names) {
      if (candidate == name) return kind;
      known += (known.empty() ? "" : ", ") + std::string(candidate);
    }
  }
  throw Error(file + ": unknown pre-tokenizer " + quoted(name) + " in tokenizer.ggml.pre; known are " + known);
}

std::string message_of(int code) {
  PCRE2_UCHAR text[160] = {};
  pcre2_get_error_message(code, text, sizeof(text));
  return reinterpret_cast<const char*>(text);
}

template <auto free_function>
struct Free {
  template <typename T>
  void operator()(T* object) const {
    free_function(object);
  }
};
using Code = std::unique_ptr<pcre2_code, Free<pcre2_code_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Free<pcre2_match_context_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Free<pcre2_match_data_free>>;
using JitStack = std::unique_ptr<pcre2_jit_stack, Free<pcre2_jit_stack_free>>;

}  // namespace

struct PreTokenizer::Regex {
  Code code;

  explicit Regex(std::string_view pattern) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF, &error, &offset,
                             nullptr));
    if (code == nullptr) {
      throw Error("pre-tokenizer expression does not compile at " + std::to_string(offset) + ": " + message_of(error));
    }
    pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);  // where there is no JIT the interpreter gives the same matches
  }

  // Cuts piece into matches and the gaps between them.
  void cut(std::string_view piece, pcre2_match_data* data, pcre2_match_context* context,
           std::vector<std::string_view>* out) const {
    size_t at = 0;
    while (at < piece.size()) {
      // The caller has made the text valid: checking it again on every match would make long texts quadratic.
      const int rc = pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(piece.data()), piece.size(), at,
                                 PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, data, context);
      if (rc == PCRE2_ERROR_NOMATCH) break;
      if (rc < 0) throw Error("the text cannot be split into words: " + message_of(rc));
      const PCRE2_SIZE* found = pcre2_get_ovector_pointer(data);
      if (found[0] > at) out->push_back(piece.substr(at, found[0] - at));
      out->push_back(piece.substr(found[0], found[1] - found[0]));
      at = found[1];
    }
    if (at < piece.size()) out->push_back(piece.substr(at));
  }
};

PreTokenizer::PreTokenizer(std::string_view name, const std::string& file) : kind_(&find_kind(name, file)) {
  for (const std::string_view stage : kind_->stages) stages_.emplace_back(stage);
}

PreTokenizer::~PreTokenizer() = default;
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;

std::vector<std::string_view> PreTokenizer::split(std::string_view text) const {
  const MatchContext context(pcre2_match_context_create(nullptr));
  const JitStack stack(pcre2_jit_stack_create(32 << 10, 4 << 20, nullptr));
  const MatchData data(pcre2_match_data_create(4, nullptr));
  if (context == nullptr || data == nullptr) throw Error("out of memory while splitting text into words");
  if (stack != nullptr) pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  // One match may step back over a long run of white space, so the limits grow with the text; they stop at a bound that
  // no linear expression reaches.
  const auto steps = static_cast<uint32_t>(std::min<size_t>(text.size() * 8 + 100'000, 1u << 31));
  pcre2_set_match_limit(context.get(), steps);
  pcre2_set_depth_limit(context.get(), steps);
  pcre2_set_heap_limit(context.get(), 64 << 10);  // KiB

  std::vector<std::string_view> pieces;
  if (!text.empty()) pieces.push_back(text);
  for (const Regex& stage : stages_) {
    std::vector<std::string_view> finer;
    finer.reserve(pieces.size() * 2);
    for (const std::string_view piece : pieces) stage.cut(piece, data.get(), context.get(), &finer);
    pieces = std::move(finer);
  }
  return pieces;
}

}  // namespace fovea::app
