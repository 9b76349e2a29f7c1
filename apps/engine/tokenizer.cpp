// SPDX-License-Identifier: Apache-2.0
#include "tokenizer.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "quoted.h"
#include "utf8.h"

namespace fovea::app {
namespace {

// GPT-2 writes every byte as a printable character: printable Latin-1 stands for itself, the other 68 bytes are
// U+0100 onwards in ascending order. Returns the byte of a code point, or -1.
constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
}

constexpr auto kByteOfCode = [] {
  std::array<int16_t, 0x144> table{};
  table.fill(-1);
  size_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte)
    table[stands_for_itself(byte) ? byte : next++] = static_cast<int16_t>(byte);
  return table;
}();

// Every code point of the alphabet has one or two UTF-8 bytes.
bool append_bytes_of(std::string_view token, std::string* out) {
  for (size_t i = 0; i < token.size(); ++i) {
    auto code = static_cast<unsigned>(static_cast<unsigned char>(token[i]));
    if (code >= 0x80) {
      if ((code & 0xe0) != 0xc0 || i + 1 == token.size()) return false;
      code = (code & 0x1f) << 6 | (static_cast<unsigned char>(token[++i]) & 0x3f);
    }
    if (code >= kByteOfCode.size() || kByteOfCode[code] < 0) return false;
    out->push_back(static_cast<char>(kByteOfCode[code]));
  }
  return true;
}

uint64_t pair_key(Token left, Token right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

Token optional_token(const Gguf& file, std::string_view key, size_t vocab) {
  if (file.find(key) == nullptr) return -1;
  const uint64_t id = file.get_uint(key);
  if (id >= vocab) {
    throw Error(file.name() + ": metadata '" + std::string(key) + "' is " + std::to_string(id) +
                ", but the vocabulary has " + std::to_string(vocab) + " tokens");
  }
  return static_cast<Token>(id);
}

// Control tokens that end an answer whatever the file names as its end of sequence.
constexpr std::string_view kEndNames[] = {"<|im_end|>",    "<|eot_id|>",    "<|eom_id|>", "<|end|>",
                                          "<|endoftext|>", "<end_of_turn>", "</s>"};

}  // namespace

TokenizerSpec TokenizerSpec::from_gguf(const Gguf& file) {
  if (const std::string_view model = file.get_string("tokenizer.ggml.model"); model != "gpt2") {
    throw Error(file.name() + ": tokenizer model " + quoted(model) + " is not supported, only gpt2 (byte BPE)");
  }
  TokenizerSpec spec;
  spec.source = file.name();
  spec.pre = file.get_string("tokenizer.ggml.pre", "default");
  spec.tokens = file.get_strings("tokenizer.ggml.tokens");
  spec.merges = file.get_strings("tokenizer.ggml.merges");
  spec.types.assign(spec.tokens.size(), kNormal);
  if (file.find("tokenizer.ggml.token_type") != nullptr) {
    const std::vector<int64_t> types = file.get_ints("tokenizer.ggml.token_type");
    if (types.size() != spec.tokens.size()) {
      throw Error(file.name() + ": tokenizer.ggml.token_type has " + std::to_string(types.size()) + " entries for " +
                  std::to_string(spec.tokens.size()) + " tokens");
    }
    for (size_t i = 0; i < types.size(); ++i) {
      if (types[i] < kNormal || types[i] > kByte) {
        throw Error(file.name() + ": token " + std::to_string(i) + " has type " + std::to_string(types[i]) +
                    ", allowed are 1 to 6");
      }
      spec.types[i] = static_cast<int8_t>(types[i]);
    }
  }
  const size_t vocab = spec.tokens.size();
  spec.bos = optional_token(file, "tokenizer.ggml.bos_token_id", vocab);
  for (const std::string_view key :
       {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    if (const Token token = optional_token(file, key, vocab); token >= 0) spec.ends.push_back(token);
  }
  for (size_t i = 0; i < vocab; ++i) {
    if (spec.types[i] != kControl) continue;
    if (std::find(std::begin(kEndNames), std::end(kEndNames), spec.tokens[i]) != std::end(kEndNames)) {
      spec.ends.push_back(static_cast<Token>(i));
    }
  }
  if (file.find("tokenizer.ggml.add_bos_token") != nullptr) {
    spec.add_bos = file.get_bool("tokenizer.ggml.add_bos_token") ? 1 : 0;
  }
  return spec;
}

Tokenizer::Tokenizer(const TokenizerSpec& spec) : pre_(spec.pre, spec.source), bos_(spec.bos), ends_(spec.ends) {
  adds_bos_ = spec.add_bos < 0 ? pre_.kind().adds_bos : spec.add_bos == 1;
  if (adds_bos_ && bos_ < 0) throw Error(spec.source + ": prompts must start with BOS, but no bos_token_id is given");
  std::sort(ends_.begin(), ends_.end());
  read_tokens(spec);
  read_merges(spec);
}

void Tokenizer::read_tokens(const TokenizerSpec& spec) {
  types_ = spec.types;
  offsets_.reserve(spec.tokens.size() + 1);
  offsets_.push_back(0);
  for (size_t i = 0; i < spec.tokens.size(); ++i) {
    const bool added = types_[i] == TokenizerSpec::kControl || types_[i] == TokenizerSpec::kUserDefined;
    const size_t start = arena_.size();
    if (added || !append_bytes_of(spec.tokens[i], &arena_)) {
      arena_.resize(start);  // a token outside the byte alphabet is its own text
      arena_.append(spec.tokens[i]);
    }
    if (arena_.size() > UINT32_MAX) throw Error(spec.source + ": the vocabulary has more than 4 GiB of text");
    offsets_.push_back(static_cast<uint32_t>(arena_.size()));
  }

  byte_tokens_.fill(-1);
  for (Token token = 0; token < vocab_size(); ++token) {
    const std::string_view text = bytes(token);
    const int8_t type = types_[static_cast<size_t>(token)];
    if (type == TokenizerSpec::kControl || type == TokenizerSpec::kUserDefined) {
      if (!text.empty()) added_.emplace_back(text, token);
      continue;
    }
    if (text.size() == 1) byte_tokens_[static_cast<unsigned char>(text[0])] = token;
    if (pre_.kind().whole_words) words_.emplace(text, token);
  }
  std::sort(added_.begin(), added_.end());
}

void Tokenizer::read_merges(const TokenizerSpec& spec) {
  std::unordered_map<std::string_view, Token> ids;
  ids.reserve(spec.tokens.size());
  for (size_t i = 0; i < spec.tokens.size(); ++i) {
    if (types_[i] != TokenizerSpec::kControl) ids.emplace(spec.tokens[i], static_cast<Token>(i));
  }
  const auto id_of = [&](std::string_view text, size_t rank) {
    const auto it = ids.find(text);
    if (it != ids.end()) return it->second;
    throw Error(spec.source + ": merge " + std::to_string(rank) + " uses " + quoted(text) +
                ", which is not in the vocabulary");
  };
  merges_.reserve(spec.merges.size());
  std::string joined;
  for (size_t rank = 0; rank < spec.merges.size(); ++rank) {
    const std::string_view merge = spec.merges[rank];
    const size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == merge.size()) {
      throw Error(spec.source + ": merge " + std::to_string(rank) + " is not two tokens with a space between");
    }
    const std::string_view left = merge.substr(0, space), right = merge.substr(space + 1);
    joined.assign(left).append(right);
    const Token first = id_of(left, rank), second = id_of(right, rank);
    merges_.emplace(pair_key(first, second), Merge{static_cast<int32_t>(rank), id_of(joined, rank)});
  }
}

bool Tokenizer::is_end(Token token) const {
  return std::binary_search(ends_.begin(), ends_.end(), token);
}

std::string_view Tokenizer::bytes(Token token) const {
  if (token < 0 || token >= vocab_size()) {
    throw Error("token " + std::to_string(token) + " is outside the vocabulary of " + std::to_string(vocab_size()));
  }
  const auto i = static_cast<size_t>(token);
  return std::string_view(arena_).substr(offsets_[i], offsets_[i + 1] - offsets_[i]);
}

const Tokenizer::Merge* Tokenizer::find_merge(Token left, Token right) const {
  const auto it = merges_.find(pair_key(left, right));
  return it == merges_.end() ? nullptr : &it->second;
}

// The longest added token that starts at text[at]: a walk down the sorted list, one character at a time.
size_t Tokenizer::match_added(std::string_view text, size_t at, bool parse_special, Token* token) const {
  auto first = added_.begin(), last = added_.end();
  size_t best = 0;
  for (size_t depth = 0; at + depth < text.size() && first != last; ++depth) {
    const auto wanted = static_cast<unsigned char>(text[at + depth]);
    const auto at_depth = [&](const auto& entry) {
      return entry.first.size() > depth ? static_cast<int>(static_cast<unsigned char>(entry.first[depth])) : -1;
    };
    first = std::partition_point(first, last, [&](const auto& entry) { return at_depth(entry) < wanted; });
    last = std::partition_point(first, last, [&](const auto& entry) { return at_depth(entry) == wanted; });
    if (first == last || first->first.size() != depth + 1) continue;
    if (parse_special || types_[static_cast<size_t>(first->second)] == TokenizerSpec::kUserDefined) {
      best = depth + 1;
      *token = first->second;
    }
  }
  return best;
}

std::vector<Token> Tokenizer::encode(std::string_view text, bool parse_special) const {
  const TextSpan span{std::string(text), parse_special};
  return encode(std::span(&span, 1));
}

std::vector<Token> Tokenizer::encode(std::span<const TextSpan> spans) const {
  std::vector<Token> out;
  std::string plain;  // text since the last added token, across spans
  for (const TextSpan& span : spans) {
    const std::string text = valid_utf8(span.text);
    size_t kept = 0;
    for (size_t at = 0; at < text.size();) {
      Token token = -1;
      const size_t length = match_added(text, at, span.parse_special, &token);
      if (length == 0) {
        ++at;
        continue;
      }
      plain.append(text, kept, at - kept);
      encode_text(plain, &out);
      plain.clear();
      out.push_back(token);
      at += length;
      kept = at;
    }
    plain.append(text, kept);
  }
  encode_text(plain, &out);
  return out;
}

void Tokenizer::encode_text(std::string_view text, std::vector<Token>* out) const {
  for (const std::string_view word : pre_.split(text)) encode_word(word, out);
}

// Merges the pair of best rank, leftmost first, until no pair can be merged. Symbols form a linked list; candidates
// wait in a heap, and one whose symbols have changed meanwhile is dropped when it comes up.
void Tokenizer::encode_word(std::string_view word, std::vector<Token>* out) const {
  if (const auto it = words_.find(word); it != words_.end()) {
    out->push_back(it->second);
    return;
  }
  struct Symbol {
    Token token;  // -1: merged into its left neighbour
    int64_t previous, next;
  };
  struct Candidate {
    int32_t rank;
    int64_t left;
    Token left_token, right_token, result;
    bool operator<(const Candidate& other) const {  // std::priority_queue keeps the largest on top
      return std::pair(rank, left) > std::pair(other.rank, other.left);
    }
  };
  std::vector<Symbol> symbols;
  symbols.reserve(word.size());
  for (const char c : word) {
    const Token token = byte_tokens_[static_cast<unsigned char>(c)];
    const auto index = static_cast<int64_t>(symbols.size());
    if (token >= 0) symbols.push_back({token, index - 1, index + 1});
  }
  if (symbols.empty()) return;
  symbols.back().next = -1;
  const auto at = [&](int64_t i) -> Symbol& { return symbols[static_cast<size_t>(i)]; };

  std::priority_queue<Candidate> queue;
  const auto consider = [&](int64_t left) {
    if (left < 0 || at(left).next < 0) return;
    const Token a = at(left).token, b = at(at(left).next).token;
    if (const Merge* merge = find_merge(a, b)) queue.push({merge->rank, left, a, b, merge->result});
  };
  for (int64_t i = 0; i + 1 < static_cast<int64_t>(symbols.size()); ++i) consider(i);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol& left = at(best.left);
    if (left.token != best.left_token || left.next < 0 || at(left.next).token != best.right_token) continue;
    Symbol& right = at(left.next);
    left.token = best.result;
    left.next = right.next;
    right.token = -1;
    if (left.next >= 0) at(left.next).previous = best.left;
    consider(left.previous);
    consider(best.left);
  }
  for (int64_t i = 0; i >= 0; i = at(i).next) out->push_back(at(i).token);
}

std::string Tokenizer::decode(std::span<const Token> tokens, bool show_control) const {
  StreamDecoder decoder(*this, show_control);
  std::string out;
  for (const Token token : tokens) out += decoder.push(token);
  return out + decoder.finish();
}

std::string StreamDecoder::push(Token token) {
  const std::string_view bytes = tokenizer_->bytes(token);
  if (!show_control_ && tokenizer_->is_control(token)) return {};
  pending_.append(bytes);
  std::string out;
  pending_.erase(0, append_valid_utf8(pending_, true, &out));
  return out;
}

std::string StreamDecoder::finish() {
  std::string out;
  append_valid_utf8(pending_, false, &out);
  pending_.clear();
  return out;
}

}  // namespace fovea::app
