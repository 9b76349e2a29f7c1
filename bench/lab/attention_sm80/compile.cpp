// SPDX-License-Identifier: Apache-2.0
// compile SOURCE OUT ARCH INCLUDE_DIR...: one kernel file to a cubin with NVRTC; no GPU is needed. See README.md.
#include <nvrtc.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  if (argc < 4) return std::printf("usage: compile SOURCE OUT ARCH INCLUDE_DIR...\n"), 2;
  std::vector<std::string> options = {std::string("-arch=sm_") + argv[3], "-std=c++20", "-default-device",
                                      "-D__builtin_memcpy=memcpy", "--ptxas-options=-v"};
  for (int i = 4; i < argc; ++i) options.push_back(std::string("-I") + argv[i]);
  std::vector<const char*> pointers;
  for (const std::string& option : options) pointers.push_back(option.c_str());
  std::ifstream in(argv[1]);
  const std::string source((std::istreambuf_iterator<char>(in)), {});
  nvrtcProgram program = nullptr;
  if (nvrtcCreateProgram(&program, source.c_str(), argv[1], 0, nullptr, nullptr) != NVRTC_SUCCESS) return 1;
  const nvrtcResult result = nvrtcCompileProgram(program, static_cast<int>(pointers.size()), pointers.data());
  size_t bytes = 0;
  nvrtcGetProgramLogSize(program, &bytes);
  std::string log(bytes, '\0');
  nvrtcGetProgramLog(program, log.data());
  std::printf("%s\n", log.c_str());
  if (result != NVRTC_SUCCESS || nvrtcGetCUBINSize(program, &bytes) != NVRTC_SUCCESS) return 1;
  std::string cubin(bytes, '\0');
  nvrtcGetCUBIN(program, cubin.data());
  std::ofstream(argv[2], std::ios::binary) << cubin;
  return 0;
}
