// SPDX-License-Identifier: Apache-2.0
// One line on a terminal that says what is going on and goes away; nothing where stderr is no terminal.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <string>

namespace fovea::app {

class Progress {
 public:
  Progress() = default;
  Progress(const Progress&) = delete;
  ~Progress() { clear(); }

  void say(const std::string& text) {
    if (!terminal_) return;
    std::fprintf(stderr, "\r\033[K%s", text.c_str());
    shown_ = true;
  }
  void clear() {
    if (shown_) std::fputs("\r\033[K", stderr);
    shown_ = false;
  }

 private:
  bool terminal_ = isatty(STDERR_FILENO) == 1;
  bool shown_ = false;
};

}  // namespace fovea::app
