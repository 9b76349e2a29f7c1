// SPDX-License-Identifier: Apache-2.0
// Libraries that are opened while the program runs: benchmarks of a device use them, and machines without one lack
// them.
#pragma once

#include <dlfcn.h>

#include <string>
#include <vector>

namespace fovea::bench {

// A C function of such a library that returns 0 on success.
template <class... Args>
struct LibraryCall {
  const char* name;
  int (*address)(Args...) = nullptr;
};

// The first path that opens, or null; the library stays until the process ends.
inline void* open_library(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return nullptr;
}

template <class... Args>
bool find_symbol(void* library, LibraryCall<Args...>& call) {
  call.address = reinterpret_cast<int (*)(Args...)>(dlsym(library, call.name));
  return call.address != nullptr;
}

}  // namespace fovea::bench
