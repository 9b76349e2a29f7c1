// SPDX-License-Identifier: Apache-2.0
// A vocabulary from the input and a text from the input. Where the vocabulary has every byte, and its merges join what
// they say, decoding gives back the text, with invalid UTF-8 replaced.
#include "engine/tokenizer.h"

#include <string>
#include <vector>

#include "engine/utf8.h"
#include "fuzz/input.h"

namespace fovea::fuzz {
namespace {

using namespace fovea::app;

// The character that stands for a byte in the alphabet of GPT-2.
std::string character(unsigned byte) {
  unsigned next = 0x100;
  for (unsigned b = 0; b <= byte; ++b) {
    const bool itself = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
    const unsigned code = itself ? b : next++;
    if (b < byte) continue;
    if (code < 0x80) return std::string(1, static_cast<char>(code));
    return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
  }
  return {};
}

struct Vocabulary {
  std::vector<std::string> texts, merges;
  TokenizerSpec spec;
  bool every_byte = true;

  explicit Vocabulary(Input& in) {
    spec.source = "f.gguf";
    spec.pre = in.pick<const char*>({"gpt-2", "smollm", "default", "falcon", "llama-bpe", "glm4", "qwen2", "qwen35",
                                     "tekken", "gpt-4o", "deepseek-v3", "deepseek-coder"});
    spec.add_bos = static_cast<int>(in.range(-1, 1));
    const auto hole = in.chance(32) ? static_cast<unsigned>(in.range(0, 255)) : 256;
    for (unsigned byte = 0; byte < 256; ++byte) {
      if (byte != hole) texts.push_back(character(byte));
    }
    every_byte = hole == 256;
    spec.types.assign(texts.size(), TokenizerSpec::kNormal);
    for (int64_t n = in.range(0, 24); n > 0; --n) add(in);
    spec.tokens.assign(texts.begin(), texts.end());
    spec.merges.assign(merges.begin(), merges.end());
    if (in.chance(200)) spec.bos = static_cast<Token>(in.range(0, static_cast<int64_t>(texts.size()) - 1));
    spec.ends = {static_cast<Token>(in.range(0, static_cast<int64_t>(texts.size()) - 1))};
  }

 private:
  const std::string& any(Input& in) {
    return texts[static_cast<size_t>(in.range(0, static_cast<int64_t>(texts.size()) - 1))];
  }
  // A token joined of two, with its merge; one of free text; or a merge alone.
  void add(Input& in) {
    const int64_t what = in.range(0, 7);
    if (what < 5) {
      const std::string left = any(in), right = any(in);
      merges.push_back(left + " " + right);
      texts.push_back(left + right);
    } else if (what < 7) {
      texts.push_back(in.text(static_cast<size_t>(in.range(0, 12))));
    } else {
      merges.push_back(in.text(static_cast<size_t>(in.range(0, 8))));
      return;
    }
    const int64_t type = in.range(TokenizerSpec::kNormal, TokenizerSpec::kByte);
    spec.types.push_back(static_cast<int8_t>(what < 4 ? int64_t{TokenizerSpec::kNormal} : type));
  }
};

bool is_added(const TokenizerSpec& spec, size_t token) {
  return spec.types[token] == TokenizerSpec::kControl || spec.types[token] == TokenizerSpec::kUserDefined;
}

// A file may say that two tokens merge into a third one with other bytes: no round trip then.
bool merges_join(const TokenizerSpec& spec, const Tokenizer& tokenizer) {
  const auto bytes_of = [&](std::string_view text, std::string* out) {
    for (size_t i = 0; i < spec.tokens.size(); ++i) {
      if (spec.tokens[i] != text || spec.types[i] == TokenizerSpec::kControl) continue;
      *out = tokenizer.bytes(static_cast<Token>(i));
      return;
    }
  };
  for (const std::string_view merge : spec.merges) {
    const size_t space = merge.find(' ', 1);
    std::string left, right, joined;
    bytes_of(merge.substr(0, space), &left);
    bytes_of(merge.substr(space + 1), &right);
    bytes_of(std::string(merge.substr(0, space)).append(merge.substr(space + 1)), &joined);
    if (left + right != joined) return false;
  }
  // A token of one byte stands for that byte wherever it occurs, so an added one of one byte must not be a part.
  for (size_t i = 256; i < spec.tokens.size(); ++i) {
    if (!is_added(spec, i) && tokenizer.bytes(static_cast<Token>(i)).empty()) return false;
  }
  return true;
}

void check_text(const Tokenizer& tokenizer, const std::string& text, bool parse_special, bool exact) {
  const std::vector<Token> tokens = tokenizer.encode(text, parse_special);
  std::string joined;
  for (const Token token : tokens) {
    demand(token >= 0 && token < tokenizer.vocab_size(), "tokens are in the vocabulary");
    joined += tokenizer.bytes(token);
  }
  const std::string decoded = tokenizer.decode(tokens, true);
  demand(decoded == valid_utf8(decoded), "what is decoded is valid UTF-8");
  demand(decoded == valid_utf8(joined), "decoding token by token is decoding");
  tokenizer.decode(tokens, false);
  if (exact) demand(decoded == valid_utf8(text), "decode(encode(text)) is the text");
}

void run(Bytes data) {
  Input in(data);
  const Vocabulary vocabulary(in);
  const bool parse_special = in.chance(128);
  const std::string text = in.text(1 << 16);
  try {
    const Tokenizer tokenizer(vocabulary.spec);
    const bool exact = vocabulary.every_byte && merges_join(vocabulary.spec, tokenizer);
    check_text(tokenizer, text, parse_special, exact);
    // What a model may put out is any sequence of ids.
    std::vector<Token> ids;
    for (const char c : text) ids.push_back(static_cast<Token>(static_cast<unsigned char>(c)) % tokenizer.vocab_size());
    const std::string decoded = tokenizer.decode(ids);
    demand(decoded == valid_utf8(decoded), "what is decoded is valid UTF-8");
  } catch (const app::Error&) {
  }
}

const Register registered({"tokenizer", run});

}  // namespace
}  // namespace fovea::fuzz
