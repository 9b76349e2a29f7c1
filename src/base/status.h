// SPDX-License-Identifier: Apache-2.0
// What a step of a call answers: OK without allocating, or a code and a message for the user.
#pragma once

#include <string>
#include <utility>

#include "fovea/core.h"
#include "shared/dtype.h"

namespace fovea {

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(fovea_status code, std::string message) : code_(code), message_(std::move(message)) {}
  bool ok() const { return code_ == FOVEA_OK; }
  fovea_status code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  fovea_status code_ = FOVEA_OK;
  std::string message_;
};

// Returns from the enclosing function if `expression` is not OK.
#define FOVEA_TRY(expression)                              \
  do {                                                     \
    ::fovea::Status fovea_try_status_ = (expression);      \
    if (!fovea_try_status_.ok()) return fovea_try_status_; \
  } while (false)

// The form of every complaint about an argument: "q.shape[2] is 12: must be 64 (kv.d_k)".
inline Status invalid_value(const std::string& argument, const std::string& value, const std::string& allowed) {
  return {FOVEA_INVALID_VALUE, argument + " is " + value + ": " + allowed};
}
inline Status invalid_value(const std::string& argument, int64_t value, const std::string& allowed) {
  return invalid_value(argument, std::to_string(value), allowed);
}
inline Status invalid_type(const std::string& argument, int32_t dtype, const std::string& allowed) {
  const DtypeRow* row = find_dtype(dtype);
  const std::string name = row ? row->name : dtype == 0 ? "absent" : "type " + std::to_string(dtype);
  return {FOVEA_INVALID_TYPE, argument + " is " + name + ": " + allowed};
}
inline Status unsupported(const std::string& message) {
  return {FOVEA_UNSUPPORTED, message};
}

// A complaint about a member of an argument that is a struct.
inline Status in_struct(const char* argument, const Status& status) {
  return status.ok() ? Status() : Status(status.code(), std::string(argument) + "." + status.message());
}

std::string format_float(double value);

// The thread's last message, for fovea_last_error.
const char* last_error();
fovea_status set_last_error(const Status& status);  // returns its code

}  // namespace fovea
