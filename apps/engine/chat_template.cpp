// SPDX-License-Identifier: Apache-2.0
#include "chat_template.h"

#include <initializer_list>

namespace fovea::app {
namespace {

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool has_any(std::string_view text, std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts) {
    if (has(text, part)) return true;
  }
  return false;
}

// Python's and Jinja's `trim` for the white space that occurs in prompts.
std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\r\f\v";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

// Text of a Jinja string literal: \n, \t, \\ and quotes may be escaped.
std::string unescaped(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    const char c = text[++i];
    out += c == 'n' ? '\n' : c == 't' ? '\t' : c;
  }
  return out;
}

// A system prompt that the template writes itself: a literal `<|im_start|>system NEWLINE text <|im_end|>` in one piece.
std::string literal_system(std::string_view text, std::string_view open, std::string_view close) {
  for (size_t at = text.find(open); at != std::string_view::npos; at = text.find(open, at + 1)) {
    std::string_view rest = text.substr(at + open.size());
    if (rest.starts_with("\n")) {
      rest.remove_prefix(1);
    } else if (rest.starts_with("\\n")) {
      rest.remove_prefix(2);
    } else {
      continue;
    }
    const char before = at > 0 ? text[at - 1] : '\0';
    const bool in_quotes = before == '\'' || before == '"';
    const size_t end = rest.find(close);
    if (end == std::string_view::npos) continue;
    const std::string_view body = rest.substr(0, end);
    // The literal must not end, nor an expression begin, before the closing marker.
    if (body.find(in_quotes ? before : '{') != std::string_view::npos) continue;
    return in_quotes ? unescaped(body) : std::string(body);
  }
  return {};
}

// The literal after `name = "` in the template.
std::string literal_assigned(std::string_view text, std::string_view name) {
  for (const char quote : {'"', '\''}) {
    const std::string start = std::string(name) + " = " + quote;
    const size_t at = text.find(start);
    if (at == std::string_view::npos) continue;
    const std::string_view rest = text.substr(at + start.size());
    return unescaped(rest.substr(0, rest.find(quote)));
  }
  return {};
}

}  // namespace

ChatTemplate::ChatTemplate(std::string_view text, std::string_view bos, std::string_view eos, const std::string& file)
    : file_(file), bos_(bos), eos_(eos) {
  starts_with_bos_ = has(text, "bos_token") && !bos_.empty();
  trims_ = has_any(text, {"| trim", "|trim", ".strip()"});
  if (!recognise(text)) {
    throw Error(file + ": the chat template is none of the known ones (ChatML, Llama-3, Llama-2, Mistral, Gemma, " +
                "Zephyr, Phi-3); use --no-chat to give the prompt as it is");
  }
}

ChatTemplate ChatTemplate::from_gguf(const Gguf& file) {
  if (file.find("tokenizer.chat_template") == nullptr) {
    throw Error(file.name() + ": the model has no chat template; use --no-chat to give the prompt as it is");
  }
  const std::vector<std::string_view>& tokens = file.get_strings("tokenizer.ggml.tokens");
  const auto text_of = [&](std::string_view key) {
    const uint64_t id = file.get_uint(key, UINT64_MAX);
    return id < tokens.size() ? tokens[id] : std::string_view();
  };
  return ChatTemplate(file.get_string("tokenizer.chat_template"), text_of("tokenizer.ggml.bos_token_id"),
                      text_of("tokenizer.ggml.eos_token_id"), file.name());
}

// Turns of the form OPEN role AFTER_ROLE content CLOSE.
void ChatTemplate::set_roles(std::string_view open, std::string_view after_role, std::string_view close) {
  const auto turn = [&](std::string_view role) {
    return Turn{std::string(open).append(role).append(after_role), std::string(close)};
  };
  system_ = turn("system");
  user_ = turn("user");
  assistant_ = turn(name_ == "Gemma" ? "model" : "assistant");
  answer_ = assistant_.open;
}

// Turns of the form <|role|> NEWLINE content CLOSE NEWLINE.
void ChatTemplate::set_marked_roles(std::string_view close) {
  set_roles("<|", "|>\n", std::string(close) + "\n");
}

// Llama-2 and Mistral: [INST] user [/INST] answer EOS, with variants in the spaces.
void ChatTemplate::set_inst(std::string_view text) {
  system_role_ = System::kInFirstUserTurn;
  user_ = {has(text, "[INST] ") ? "[INST] " : "[INST]", has(text, " [/INST]") ? " [/INST]" : "[/INST]"};
  if (name_ == "Llama-2") {
    bos_before_each_user_ = starts_with_bos_;
    system_ = {"<<SYS>>\n", "\n<</SYS>>\n\n"};
    assistant_ = {" ", " " + eos_};
    return;
  }
  system_ = {"", "\n\n"};
  assistant_ = {"", eos_};
}

bool ChatTemplate::recognise(std::string_view text) {
  if (has(text, "<|start_header_id|>") && has(text, "<|eot_id|>")) {
    name_ = "Llama-3";
    set_roles("<|start_header_id|>", "<|end_header_id|>\n\n", "<|eot_id|>");
    if (has(text, "Cutting Knowledge Date: December 2023")) {
      const std::string date = literal_assigned(text, "date_string");
      if (date.empty()) return false;
      system_preamble_ = "Cutting Knowledge Date: December 2023\nToday Date: " + date + "\n\n";
    }
    return true;
  }
  if (has(text, "<|im_start|>") && has(text, "<|im_end|>")) {
    // Relatives of ChatML that add a separator or a dated preamble are other formats.
    if (has_any(text, {"<|im_sep|>", "strftime_now", "## Metadata"})) return false;
    name_ = "ChatML";
    set_roles("<|im_start|>", "\n", "<|im_end|>\n");
    default_system_ = literal_system(text, "<|im_start|>system", "<|im_end|>");
    return true;
  }
  if (has(text, "<start_of_turn>") && has(text, "<end_of_turn>")) {
    name_ = "Gemma";
    set_roles("<start_of_turn>", "\n", "<end_of_turn>\n");
    system_role_ = has(text, "System role not supported") ? System::kRefused : System::kInFirstUserTurn;
    system_ = {"", "\n\n"};
    return true;
  }
  if (has(text, "<|user|>") && has(text, "<|assistant|>")) {
    if (has(text, "<|end|>")) {
      name_ = "Phi-3";
      set_marked_roles("<|end|>");
      return true;
    }
    if (has(text, "<|system|>") && has(text, "eos_token") && !eos_.empty()) {
      name_ = "Zephyr";
      set_marked_roles(eos_);
      return true;
    }
    return false;
  }
  if (has(text, "[INST]") && has(text, "[/INST]")) {
    name_ = has(text, "<<SYS>>") ? "Llama-2" : "Mistral";
    set_inst(text);
    return true;
  }
  return false;
}

std::vector<TextSpan> ChatTemplate::render(std::span<const ChatMessage> messages) const {
  std::vector<TextSpan> out;
  const auto add = [&](std::string_view text, bool parse_special) {
    if (text.empty()) return;
    if (out.empty() || out.back().parse_special != parse_special) out.push_back({"", parse_special});
    out.back().text += text;
  };
  const auto content = [&](std::string_view text) { add(trims_ ? trimmed(text) : text, false); };

  const bool given = !messages.empty() && messages[0].role == "system";
  const std::string system = given ? messages[0].content : default_system_;
  if (given && system_role_ == System::kRefused) {
    throw Error(file_ + ": the " + std::string(name_) + " chat template of this model takes no system prompt");
  }
  if (starts_with_bos_ && !bos_before_each_user_) add(bos_, true);
  const bool has_system = given || !default_system_.empty() || !system_preamble_.empty();
  const auto add_system = [&] {
    add(system_.open, true);
    add(system_preamble_, true);
    content(system);
    add(system_.close, true);
  };
  if (has_system && system_role_ == System::kOwnTurn) add_system();
  bool first_user = true;
  for (const ChatMessage& message : messages.subspan(given ? 1 : 0)) {
    if (message.role != "user" && message.role != "assistant") {
      throw Error("chat message with role '" + message.role + "': allowed are user and assistant, and system as first");
    }
    const bool user = message.role == "user";
    const Turn& turn = user ? user_ : assistant_;
    if (user && bos_before_each_user_) add(bos_, true);
    add(turn.open, true);
    if (user && first_user && has_system && system_role_ == System::kInFirstUserTurn) add_system();
    if (user) first_user = false;
    content(message.content);
    add(turn.close, true);
  }
  add(answer_, true);
  return out;
}

}  // namespace fovea::app
