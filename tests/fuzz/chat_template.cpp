// SPDX-License-Identifier: Apache-2.0
// A chat template and a conversation from the input: contents stay plain text, whatever the template says.
#include "engine/chat_template.h"

#include <string>
#include <vector>

#include "fuzz/input.h"

namespace fovea::fuzz {
namespace {

using namespace fovea::app;

void run(Bytes data) {
  Input in(data);
  const std::string bos = in.pick({"", "<s>", "<|begin_of_text|>"}), eos = in.pick({"", "</s>", "<|im_end|>"});
  std::vector<ChatMessage> messages(static_cast<size_t>(in.range(0, 4)));
  size_t content = 0;
  for (ChatMessage& message : messages) {
    message.role = in.pick({"user", "assistant", "system", "tool"});
    message.content = in.text(static_cast<size_t>(in.range(0, 24)));
    content += message.content.size();
  }
  const std::string text = in.text(1 << 16);
  try {
    const ChatTemplate chat(text, bos, eos, "f.gguf");
    const std::vector<TextSpan> spans = chat.render(messages);
    size_t plain = 0;
    for (size_t i = 0; i < spans.size(); ++i) {
      if (!spans[i].parse_special) plain += spans[i].text.size();
      demand(i == 0 || spans[i].parse_special != spans[i - 1].parse_special, "spans of one kind are joined");
    }
    // The template's own system prompt is content too.
    demand(plain <= content + chat.default_system().size(), "only contents are plain text");
  } catch (const app::Error&) {
  }
}

const Register registered({"chat_template", run});

}  // namespace
}  // namespace fovea::fuzz
