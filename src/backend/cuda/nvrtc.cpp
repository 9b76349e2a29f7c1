// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/nvrtc.h"

#include <algorithm>
#include <filesystem>

#include "backend/cuda/shared_library.h"

namespace fovea::cuda {

// The part of NVRTC's interface that is used.
struct NvrtcApi {
  using Result = int;
  using Program = struct NvrtcProgram*;
  SymbolList symbols;

  Symbol<const char*(Result)> get_error_string{symbols, "nvrtcGetErrorString"};
  Symbol<Result(int* major, int* minor)> version{symbols, "nvrtcVersion"};
  Symbol<Result(int* count)> get_num_supported_archs{symbols, "nvrtcGetNumSupportedArchs"};
  Symbol<Result(int* archs)> get_supported_archs{symbols, "nvrtcGetSupportedArchs"};
  Symbol<Result(Program*, const char* text, const char* name, int headers, const char* const* texts,
                const char* const* names)>
      create_program{symbols, "nvrtcCreateProgram"};
  Symbol<Result(Program*)> destroy_program{symbols, "nvrtcDestroyProgram"};
  Symbol<Result(Program, int count, const char* const* options)> compile_program{symbols, "nvrtcCompileProgram"};
  Symbol<Result(Program, size_t*)> get_program_log_size{symbols, "nvrtcGetProgramLogSize"};
  Symbol<Result(Program, char*)> get_program_log{symbols, "nvrtcGetProgramLog"};
  Symbol<Result(Program, size_t*)> get_cubin_size{symbols, "nvrtcGetCUBINSize"};
  Symbol<Result(Program, char*)> get_cubin{symbols, "nvrtcGetCUBIN"};
};

namespace {

constexpr size_t kMaxLog = 4000;  // bytes of a log that an error message shows

std::string library_name(int major) {
  return "libnvrtc.so." + std::to_string(major);
}

std::string builtins_name(const NvrtcVersion& version) {
  return "libnvrtc-builtins.so." + name(version);
}

// Where a folder may hold the library: itself, a toolkit's root, or the layouts of the PyPI packages.
std::vector<std::string> candidates(const std::string& where, int max_major) {
  std::vector<std::string> paths;
  std::error_code ignored;
  if (!where.empty() && !std::filesystem::is_directory(where, ignored)) return {where};
  for (int major = std::min(max_major, Nvrtc::kNewestMajor); major >= 12; --major) {
    const std::string file = library_name(major);
    if (where.empty()) {
      paths.push_back(file);
      paths.push_back("/usr/local/cuda/lib64/" + file);
      continue;
    }
    const std::string package = "nvidia/cu" + std::to_string(major) + "/lib/";
    for (const std::string& below :
         {std::string(), std::string("lib64/"), std::string("lib/"), package, std::string("nvidia/cuda_nvrtc/lib/")}) {
      std::string path = where;
      paths.push_back(path.append("/").append(below).append(file));
    }
  }
  return paths;
}

class ProgramOwner {
 public:
  explicit ProgramOwner(const NvrtcApi& api) : api_(api) {}
  ~ProgramOwner() {
    if (program != nullptr) static_cast<void>(api_.destroy_program(&program));
  }
  ProgramOwner(const ProgramOwner&) = delete;
  ProgramOwner& operator=(const ProgramOwner&) = delete;
  NvrtcApi::Program program = nullptr;

 private:
  const NvrtcApi& api_;
};

std::string read_log(const NvrtcApi& api, NvrtcApi::Program program) {
  size_t size = 0;
  if (api.get_program_log_size(program, &size) != 0 || size <= 1) return "";
  std::string log(size, '\0');
  if (api.get_program_log(program, log.data()) != 0) return "";
  log.resize(size - 1);
  return log;
}

}  // namespace

std::string name(const NvrtcVersion& version) {
  return std::to_string(version.major) + "." + std::to_string(version.minor);
}

Nvrtc::Nvrtc() = default;
Nvrtc::~Nvrtc() = default;

Status Nvrtc::open(const std::string& where, int max_major, std::unique_ptr<Nvrtc>& out) {
  std::string tried;
  for (const std::string& path : candidates(where, max_major)) {
    std::unique_ptr<Nvrtc> made(new Nvrtc);
    made->api_ = std::make_unique<NvrtcApi>();
    const NvrtcApi& api = *made->api_;
    const std::string problem = open_library(path, api.symbols);
    tried += (tried.empty() ? "" : ", ") + path;
    if (!problem.empty()) continue;
    int count = 0;
    if (api.version(&made->version_.major, &made->version_.minor) != 0 || api.get_num_supported_archs(&count) != 0 ||
        count < 0) {
      return {FOVEA_DEVICE, path + " does not answer what it is"};
    }
    if (made->version_.major > max_major) {
      return unsupported(path + " is NVRTC " + name(made->version_) + ": the driver loads code of CUDA " +
                         std::to_string(max_major) + " at most");
    }
    made->archs_.resize(static_cast<size_t>(count));
    if (count > 0 && api.get_supported_archs(made->archs_.data()) != 0) made->archs_.clear();
    made->path_ = library_path_of(api.version.address());
    // NVRTC opens this by its name alone. In a program whose dlopen is wrapped, by AddressSanitizer say, the loader
    // does not look beside NVRTC for it: so it is loaded already. Where it is elsewhere, NVRTC finds it or says so.
    static_cast<void>(
        open_library(std::filesystem::path(made->path_).replace_filename(builtins_name(made->version_)), {}));
    out = std::move(made);
    return {};
  }
  return {FOVEA_IO, "NVRTC is not there (tried " + tried +
                        "); it is part of the CUDA toolkit and of the PyPI package " + "nvidia-cuda-nvrtc"};
}

bool Nvrtc::supports(const CudaArch& arch) const {
  return std::find(archs_.begin(), archs_.end(), arch.number) != archs_.end();
}

Status Nvrtc::compile(const KernelSource& source, Compiled& out) const {
  std::vector<const char*> names, texts, options;
  for (const Source* header : source.headers) {
    names.push_back(header->name);
    texts.push_back(header->text);
  }
  for (const std::string& option : source.options) options.push_back(option.c_str());
  options.push_back("-Xptxas=-v");  // spills go to the log
  // From 12.9 on it keeps a cache of its own, in the user's home, whose hits have no log.
  if (!(version_ < NvrtcVersion{12, 9})) options.push_back("-no-cache");
  ProgramOwner owner(*api_);
  const auto failed = [&](const char* step, int result, const std::string& log) -> Status {
    std::string message = "compiling " + source.name + " with NVRTC " + name(version_) + ": " + step + ": " +
                          api_->get_error_string(result);
    if (!log.empty()) message += "\n" + log.substr(0, kMaxLog);
    return {result == 1 ? FOVEA_OUT_OF_MEMORY : FOVEA_INTERNAL, message};
  };
  int result = api_->create_program(&owner.program, source.program.c_str(), "kernel.cu", static_cast<int>(names.size()),
                                    texts.data(), names.data());
  if (result != 0) return failed(api_->create_program.name(), result, "");
  result = api_->compile_program(owner.program, static_cast<int>(options.size()), options.data());
  const std::string log = read_log(*api_, owner.program);
  if (result != 0) return failed(api_->compile_program.name(), result, log);
  size_t size = 0;
  result = api_->get_cubin_size(owner.program, &size);
  if (result != 0) return failed(api_->get_cubin_size.name(), result, log);
  std::string cubin(size, '\0');
  if (size > 0) result = api_->get_cubin(owner.program, cubin.data());
  if (result != 0) return failed(api_->get_cubin.name(), result, log);
  if (!cubin.starts_with("\x7f"
                         "ELF")) {
    return {FOVEA_INTERNAL, "compiling " + source.name + " with NVRTC " + name(version_) + " gave no code"};
  }
  out = {std::move(cubin), log};
  return {};
}

}  // namespace fovea::cuda
