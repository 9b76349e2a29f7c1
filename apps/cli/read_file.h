// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include "engine/error.h"

namespace fovea::app {

// The bytes of a file. One that cannot be opened or read: Error that names it and says why.
inline std::string read_file(const std::string& path) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error(path + ": cannot open: " + std::strerror(errno));
  std::string bytes;
  char part[1 << 14];
  do {
    in.read(part, sizeof part);
    bytes.append(part, static_cast<size_t>(in.gcount()));
  } while (in);
  if (in.bad()) throw Error(path + ": cannot read: " + std::strerror(errno));
  return bytes;
}

}  // namespace fovea::app
