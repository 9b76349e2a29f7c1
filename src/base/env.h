// SPDX-License-Identifier: Apache-2.0
// Every environment variable that the library reads. They are read while a context is created and at no other time.
#pragma once

#include <string>

namespace fovea {

enum class Env : int { xdg_cache_home, home };

struct EnvRow {
  Env id;
  const char* name;
  const char* help;
};

inline constexpr EnvRow kEnvironment[] = {
    {Env::xdg_cache_home, "XDG_CACHE_HOME",
     "compiled kernels are kept in $XDG_CACHE_HOME/fovea, unless the context names a folder"},
    {Env::home, "HOME", "where XDG_CACHE_HOME is not set, they are kept in $HOME/.cache/fovea"},
};

std::string env(Env id);  // empty where it is not set

}  // namespace fovea
