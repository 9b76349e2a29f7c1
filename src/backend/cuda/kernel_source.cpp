// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/kernel_source.h"

namespace fovea::cuda {

namespace {

// Raised when the way that a program is put together changes without a change of its text.
constexpr uint64_t kKeyVersion = 1;

// Enumerators and not constexpr ints: with every function one of the device, each of those would become a global
// variable of the cubin.
std::string program_of(const KernelRequest& request) {
  std::string text = "namespace fovea::config {\nenum : int {\n";
  for (const KernelConstant& constant : request.constants) {
    text += std::string(constant.name) + " = " + std::to_string(constant.value) + ",\n";
  }
  return text + "};\n}\n#include \"" + std::string(request.file) + "\"\n";
}

}  // namespace

Status make_kernel_source(const Sources& sources, const KernelRequest& request, KernelSource& out) {
  out.name = name(request) + " for sm_" + name(request.arch);
  out.program = program_of(request);
  FOVEA_TRY(sources.reachable(request.file, out.headers));
  // Functions of src/shared have no annotation for devices: by default every function is one of the device.
  out.options = {"-arch=sm_" + name(request.arch), "-std=c++20", "-default-device"};
  Hasher hasher;
  hasher.number(kKeyVersion);
  hasher.text(request.entry);
  hasher.text(out.program);
  hasher.number(out.headers.size());
  for (const Source* header : out.headers) hasher.hash(header->digest);
  hasher.number(out.options.size());
  for (const std::string& option : out.options) hasher.text(option);
  out.key = hasher.finish();
  return {};
}

}  // namespace fovea::cuda
