// SPDX-License-Identifier: Apache-2.0
// Words of a file from a stranger inside a message for a terminal.
#pragma once

#include <string>
#include <string_view>

namespace fovea::app {

// On one line, without control characters, and short, whatever the file holds.
inline std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 80)) out += (c >= 0x20 && c < 0x7f) ? c : '?';
  return text.size() > 80 ? out + "..." : out;
}

inline std::string quoted(std::string_view text) {
  return "'" + printable(text) + "'";
}

}  // namespace fovea::app
