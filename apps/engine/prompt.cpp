// SPDX-License-Identifier: Apache-2.0
#include "prompt.h"

#include <utility>

namespace fovea::app {
namespace {

// Models that want BOS get it once, whether a template has written it or not.
std::vector<Token> with_bos(const Tokenizer& tokenizer, std::vector<Token> tokens) {
  if (tokenizer.adds_bos() && (tokens.empty() || tokens.front() != tokenizer.bos())) {
    tokens.insert(tokens.begin(), tokenizer.bos());
  }
  return tokens;
}

}  // namespace

std::vector<Token> chat_prompt(const Tokenizer& tokenizer, const ChatTemplate& chat, const std::string* system,
                               const std::string& question) {
  std::vector<ChatMessage> messages;
  if (system != nullptr) messages.push_back({"system", *system});
  messages.push_back({"user", question});
  return with_bos(tokenizer, tokenizer.encode(chat.render(messages)));
}

std::vector<Token> plain_prompt(const Tokenizer& tokenizer, const std::string& text) {
  return with_bos(tokenizer, tokenizer.encode(text));
}

}  // namespace fovea::app
