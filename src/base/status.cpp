// SPDX-License-Identifier: Apache-2.0
#include "base/status.h"

#include <cstdio>

namespace fovea {

namespace {
thread_local std::string t_message;
}

std::string format_float(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

const char* last_error() {
  return t_message.c_str();
}

fovea_status set_last_error(const Status& status) {
  t_message = status.message();
  return status.code();
}

}  // namespace fovea
