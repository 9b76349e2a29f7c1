// SPDX-License-Identifier: Apache-2.0
// Part of every program of a build with AddressSanitizer. Threads of NVRTC outlive its use, and the leak checker cannot
// stop them: a process that has loaded it goes without.
#include <link.h>

#include <cstring>

namespace {

int is_nvrtc(dl_phdr_info* library, size_t, void*) {
  return std::strstr(library->dlpi_name, "/libnvrtc.so") != nullptr ? 1 : 0;
}

}  // namespace

// The checker asks this at exit.
extern "C" int __lsan_is_turned_off();   // NOLINT(bugprone-reserved-identifier): the checker's name
extern "C" int __lsan_is_turned_off() {  // NOLINT(bugprone-reserved-identifier)
  return dl_iterate_phdr(is_nvrtc, nullptr);
}
