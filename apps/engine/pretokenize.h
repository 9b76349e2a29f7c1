// SPDX-License-Identifier: Apache-2.0
// The split of text into words that comes before byte-level BPE. GGUF names it in tokenizer.ggml.pre; each name stands
// for one or more regular expressions, applied one after the other: every match and every gap becomes a piece, and the
// next expression sees each piece alone.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::app {

struct PreTokenizerKind {
  std::span<const std::string_view> names;   // values of tokenizer.ggml.pre
  std::span<const std::string_view> stages;  // regular expressions
  bool whole_words = false;                  // a word that is a token is taken as it is, without merging
  bool adds_bos = false;                     // what a file means that does not say add_bos_token
};

class PreTokenizer {
 public:
  // Unknown name: Error that lists the known ones; `file` stands in front of the message.
  PreTokenizer(std::string_view name, const std::string& file);
  ~PreTokenizer();
  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;

  const PreTokenizerKind& kind() const { return *kind_; }

  // text must be valid UTF-8. The pieces are views into it, in order, and cover it.
  std::vector<std::string_view> split(std::string_view text) const;

 private:
  struct Regex;
  const PreTokenizerKind* kind_;
  std::vector<Regex> stages_;
};

}  // namespace fovea::app
