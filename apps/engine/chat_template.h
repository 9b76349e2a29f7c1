// SPDX-License-Identifier: Apache-2.0
// Chat prompts without a template language: the common formats are recognised by what their Jinja text contains, and
// written from a table. A template that is not recognised is an error, never a guess.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer.h"

namespace fovea::app {

struct ChatMessage {
  std::string role;  // "system" (only first), "user" or "assistant"
  std::string content;
};

class ChatTemplate {
 public:
  // text is tokenizer.chat_template, bos and eos are the texts of these tokens (empty: none), file names the model in
  // messages. Unknown: Error that names --no-chat.
  ChatTemplate(std::string_view text, std::string_view bos, std::string_view eos, const std::string& file);

  static ChatTemplate from_gguf(const Gguf& file);

  std::string_view name() const { return name_; }
  const std::string& default_system() const { return default_system_; }

  // The conversation and the opening of the assistant's next answer. Contents come back as spans in which control
  // tokens are plain text: what a user types cannot end his turn.
  std::vector<TextSpan> render(std::span<const ChatMessage> messages) const;

 private:
  struct Turn {
    std::string open, close;
  };
  enum class System { kOwnTurn, kInFirstUserTurn, kRefused };

  bool recognise(std::string_view text);
  void set_roles(std::string_view open, std::string_view after_role, std::string_view close);
  void set_marked_roles(std::string_view close);
  void set_inst(std::string_view text);

  std::string_view name_;
  std::string file_, bos_, eos_;
  bool starts_with_bos_ = false;
  bool bos_before_each_user_ = false;
  bool trims_ = false;
  System system_role_ = System::kOwnTurn;
  Turn system_, user_, assistant_;
  std::string answer_;           // opens the answer that is wanted
  std::string default_system_;   // used when the conversation has no system message
  std::string system_preamble_;  // stands before the system text, given or not
};

}  // namespace fovea::app
