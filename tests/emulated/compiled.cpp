// SPDX-License-Identifier: Apache-2.0
#include "emulated/compiled.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>

namespace emulated {
namespace {

namespace fs = std::filesystem;

// Of this process; gone with it.
struct Folder {
  fs::path path = fs::temp_directory_path() / ("fovea_emulated_" + std::to_string(getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

std::string source_of(const fovea::KernelRequest& request, const std::string& args_type) {
  std::string text =
      "#include \"emulated/attention.h\"\nnamespace fovea {\nextern char shared_bytes[] "
      "__asm__(\"_ZN4simt14dynamic_memoryE\");\n}\nnamespace fovea::config {\nenum : int {\n";
  for (const auto& constant : request.constants) {
    text += std::string(constant.name) + " = " + std::to_string(constant.value) + ",\n";
  }
  text += "};\n}\n#include \"" + std::string(request.file) + "\"\n";
  text +=
      "extern \"C\" __attribute__((visibility(\"default\"))) void run_kernel(const void* args, simt::Dim grid, "
      "simt::Dim block) {\n  const auto& a = *static_cast<const fovea::" +
      args_type + "*>(args);\n  simt::run(grid, block, [&] { fovea::" + std::string(request.entry) + "(a); });\n}\n";
  return text;
}

std::string read_file(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

Compiled compiled(const fovea::KernelRequest& request, const std::string& args_type) {
  static Folder folder;
  static std::map<std::string, Compiled> all;
  const std::string source = source_of(request, args_type);
  Compiled& kernel = all[source];
  if (kernel != nullptr) return kernel;
  const fs::path base = folder.path / std::to_string(all.size());
  const std::string cpp = base.string() + ".cpp", library = base.string() + ".so", log = base.string() + ".log";
  std::ofstream(cpp) << source;
  const std::string root = FOVEA_SOURCE_DIR;
  const std::string command =
      std::string(FOVEA_CXX) +
      " -std=c++20 -O1 -fPIC -shared -fvisibility=hidden -fno-gnu-unique -fno-strict-aliasing -ffp-contract=off -w" +
      " -I" + root + "/tests/emulated/device -I" + root + "/src -I" + root + "/include -I" + root + "/tests " + cpp +
      " -o " + library + " >" + log + " 2>&1";
  if (std::system(command.c_str()) != 0) throw std::runtime_error(command + "\n" + read_file(log));
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) throw std::runtime_error(dlerror());
  kernel = reinterpret_cast<Compiled>(dlsym(handle, "run_kernel"));
  if (kernel == nullptr) throw std::runtime_error(dlerror());
  return kernel;
}

}  // namespace emulated
