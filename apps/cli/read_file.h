// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fstream>
#include <iterator>
#include <string>

#include "engine/error.h"

namespace fovea::app {

// The bytes of a file. One that cannot be opened or read: Error that names it.
inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error(path + ": cannot open");
  std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (in.bad()) throw Error(path + ": cannot read");
  return bytes;
}

}  // namespace fovea::app
