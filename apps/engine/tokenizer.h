// SPDX-License-Identifier: Apache-2.0
// Byte-level BPE from the metadata of a GGUF file (tokenizer.ggml.model = gpt2).
//
// encode: text that is not valid UTF-8 has each maximal invalid part replaced by U+FFFD; added tokens are cut out
// first, the rest is split into words and merged. Bytes for which the vocabulary has no token are left out, as the
// tokenizers that such vocabularies come from do. Time is O(n log n), memory O(n).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gguf.h"
#include "pretokenize.h"

namespace fovea::app {

using Token = int32_t;

// What a tokenizer is made of: filled from a GGUF file, or by hand.
struct TokenizerSpec {
  enum Type : int8_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

  std::string source;                    // stands in front of messages
  std::string pre = "default";           // name of the pre-tokenizer
  std::vector<std::string_view> tokens;  // in the byte-to-character alphabet of GPT-2
  std::vector<int8_t> types;             // Type, one per token
  std::vector<std::string_view> merges;  // "left right", best first
  Token bos = -1;                        // -1: none
  std::vector<Token> ends;               // tokens that end a generation
  int add_bos = -1;                      // -1: what the pre-tokenizer's family does

  static TokenizerSpec from_gguf(const Gguf& file);
};

// A part of a prompt. In text that a template or the caller wrote, control tokens such as <|im_end|> are recognised; in
// text that came from elsewhere they are plain characters.
struct TextSpan {
  std::string text;
  bool parse_special = true;
};

class Tokenizer {
 public:
  explicit Tokenizer(const TokenizerSpec& spec);

  int vocab_size() const { return static_cast<int>(offsets_.size()) - 1; }
  Token bos() const { return bos_; }
  bool adds_bos() const { return adds_bos_; }
  bool is_end(Token token) const;
  bool is_control(Token token) const { return types_.at(static_cast<size_t>(token)) == TokenizerSpec::kControl; }

  // Neither adds BOS.
  std::vector<Token> encode(std::string_view text, bool parse_special = true) const;
  std::vector<Token> encode(std::span<const TextSpan> spans) const;

  // The token's bytes, not necessarily valid UTF-8 by themselves; for added tokens their name.
  std::string_view bytes(Token token) const;

  // Valid UTF-8; control tokens are left out unless asked for.
  std::string decode(std::span<const Token> tokens, bool show_control = false) const;

 private:
  struct Merge {
    int32_t rank;
    Token result;
  };

  void read_tokens(const TokenizerSpec& spec);
  void read_merges(const TokenizerSpec& spec);
  void encode_text(std::string_view text, std::vector<Token>* out) const;
  void encode_word(std::string_view word, std::vector<Token>* out) const;
  size_t match_added(std::string_view text, size_t at, bool parse_special, Token* token) const;
  const Merge* find_merge(Token left, Token right) const;

  PreTokenizer pre_;
  std::string arena_;              // bytes of all tokens, one after the other
  std::vector<uint32_t> offsets_;  // token i is arena_[offsets_[i], offsets_[i + 1])
  std::vector<int8_t> types_;
  std::array<Token, 256> byte_tokens_{};
  std::unordered_map<uint64_t, Merge> merges_;             // key: left << 32 | right
  std::unordered_map<std::string_view, Token> words_;      // bytes to token, when the family takes whole words
  std::vector<std::pair<std::string_view, Token>> added_;  // sorted by text
  Token bos_ = -1;
  std::vector<Token> ends_;
  bool adds_bos_ = false;
};

// Turns tokens into text as they come. A character whose bytes are spread over tokens appears when it is complete.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, bool show_control = false)
      : tokenizer_(&tokenizer), show_control_(show_control) {}

  std::string push(Token token);
  std::string finish();  // an unfinished character becomes U+FFFD

 private:
  const Tokenizer* tokenizer_;
  bool show_control_;
  std::string pending_;
};

}  // namespace fovea::app
