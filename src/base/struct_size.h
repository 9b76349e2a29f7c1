// SPDX-License-Identifier: Apache-2.0
// Reads a caller's parameter struct of another version: a longer one must have zeros where this version knows nothing.
// No shorter version has been published yet, so shorter is an error; the first struct that grows adds its old size
// here.
#pragma once

#include <algorithm>
#include <string>

#include "base/status.h"

namespace fovea {

template <class T>
Status check_struct(const char* name, const T* in) {
  if (in == nullptr) return invalid_value(name, "null", "must point to its struct");
  constexpr uint32_t kKnown = sizeof(T), kMost = 1 << 16;
  if (in->struct_size < kKnown) {
    return invalid_value(std::string(name) + ".struct_size", in->struct_size,
                         "must be at least " + std::to_string(kKnown) + " (initialise the struct)");
  }
  if (in->struct_size > kMost) {
    return invalid_value(std::string(name) + ".struct_size", in->struct_size,
                         "must be at most " + std::to_string(kMost));
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(in);
  const bool tail_is_zero =
      std::all_of(bytes + kKnown, bytes + in->struct_size, [](unsigned char b) { return b == 0; });
  if (!tail_is_zero) {
    return invalid_value(std::string(name) + ".struct_size", in->struct_size,
                         "a field that this version does not know is set");
  }
  return {};
}

}  // namespace fovea
