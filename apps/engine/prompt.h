// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "chat_template.h"
#include "tokenizer.h"

namespace fovea::app {

// Tokens of a user's question in the chat format of the model, with an optional system prompt.
std::vector<Token> chat_prompt(const Tokenizer& tokenizer, const ChatTemplate& chat, const std::string* system,
                               const std::string& question);

// Tokens of text as it is, control tokens recognised.
std::vector<Token> plain_prompt(const Tokenizer& tokenizer, const std::string& text);

}  // namespace fovea::app
