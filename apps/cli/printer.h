// SPDX-License-Identifier: Apache-2.0
// Writes answers as they come: one by itself, several each under a label, in the order of their prompts.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "engine/tokenizer.h"

namespace fovea::app {

class Printer {
 public:
  // out may be null: then the texts are only collected.
  Printer(const Tokenizer& tokenizer, const std::vector<std::string>& prompts, std::ostream* out);

  void token(size_t request, Token token);
  void finish(size_t request);  // a second time does nothing
  const std::string& text(size_t request) const { return texts_[request]; }

 private:
  void flush();
  std::string label() const;

  const std::vector<std::string>& prompts_;
  std::ostream* out_;
  std::vector<StreamDecoder> decoders_;
  std::vector<std::string> texts_;
  std::vector<bool> done_;
  size_t current_ = 0;  // the prompt whose answer is being written
  size_t written_ = 0;  // bytes of it
  bool labelled_ = false;
};

}  // namespace fovea::app
