// SPDX-License-Identifier: Apache-2.0
#include "support/backends.h"

#include <sstream>

namespace fovea::test {

Context cpu_context(int32_t threads, const char* isa) {
  ContextParams params;
  params.threads = threads;
  params.isa = isa;
  return Context(params);
}

const std::vector<Backend>& backends() {
  static const std::vector<Backend> all = [] {
    std::vector<Backend> found;
    std::istringstream names(cpu_context(1).info().isa_compiled);
    for (std::string isa; names >> isa;) {
      found.push_back({"cpu " + isa, cpu_context(found.empty() ? 2 : 1, isa.c_str())});
    }
    return found;
  }();
  return all;
}

}  // namespace fovea::test
