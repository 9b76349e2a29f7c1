// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/shared_library.h"

#include <dlfcn.h>

namespace fovea::cuda {

namespace {

std::string loader_error() {
  const char* text = dlerror();
  return text ? text : "unknown error of the loader";
}

}  // namespace

std::string open_library(const std::string& path, const SymbolList& symbols) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return loader_error();
  for (SymbolBase* symbol : symbols) {
    void* address = dlsym(handle, symbol->name());
    if (address == nullptr) {
      dlclose(handle);
      return path + " has no function " + symbol->name();
    }
    symbol->bind(address);
  }
  return "";
}

std::string library_path_of(const void* address) {
  Dl_info info;
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return "";
  return info.dli_fname;
}

}  // namespace fovea::cuda
