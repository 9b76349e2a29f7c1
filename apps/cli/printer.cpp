// SPDX-License-Identifier: Apache-2.0
#include "printer.h"

#include "engine/utf8.h"

namespace fovea::app {

constexpr size_t kLabelBytes = 60;  // of the prompt

Printer::Printer(const Tokenizer& tokenizer, const std::vector<std::string>& prompts, std::ostream* out)
    : prompts_(prompts),
      out_(out),
      decoders_(prompts.size(), StreamDecoder(tokenizer)),
      texts_(prompts.size()),
      done_(prompts.size()) {}

void Printer::token(size_t request, Token token) {
  texts_[request] += decoders_[request].push(token);
  flush();
}

void Printer::finish(size_t request) {
  if (done_[request]) return;
  texts_[request] += decoders_[request].finish();
  done_[request] = true;
  flush();
}

// What is next in order and has not been written yet.
void Printer::flush() {
  while (out_ != nullptr && current_ < prompts_.size()) {
    if (prompts_.size() > 1 && !labelled_) *out_ << label();
    labelled_ = true;
    *out_ << texts_[current_].substr(written_) << std::flush;
    written_ = texts_[current_].size();
    if (!done_[current_]) return;
    ++current_;
    *out_ << (current_ < prompts_.size() ? "\n\n" : "\n") << std::flush;
    written_ = 0;
    labelled_ = false;
  }
}

std::string Printer::label() const {
  const std::string& prompt = prompts_[current_];
  std::string start;
  append_valid_utf8(prompt.substr(0, kLabelBytes), true, &start);  // a character that is cut is left out
  return "[" + std::to_string(current_ + 1) + "] " + start + (prompt.size() > kLabelBytes ? "..." : "") + "\n";
}

}  // namespace fovea::app
