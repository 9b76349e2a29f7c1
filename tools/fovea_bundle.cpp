// SPDX-License-Identifier: Apache-2.0
// fovea_bundle: compiles the catalogue of kernels into one bundle for each architecture. Part of the build.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/build_bundle.h"
#include "backend/cuda/bundle.h"
#include "backend/cuda/nvrtc.h"
#include "plan/catalogue.h"

namespace {

using fovea::Status;
using fovea::cuda::BuiltKernel;

constexpr char kUsage[] =
    "fovea_bundle --archs 80,90a --output FOLDER [--nvrtc PATH]... [--jobs N] [--resources FILE]\n"
    "  --archs      architectures, by commas; \"all\": every one that a given NVRTC compiles for\n"
    "  --output     where fovea-sm_<arch>.bundle goes; FOLDER/cache keeps what is compiled already\n"
    "  --nvrtc      libnvrtc or a folder that holds it, or \"default\" for where the loader finds it; several: each\n"
    "               architecture takes the first that knows it\n"
    "  --jobs       threads; 0: one for each core\n"
    "  --resources  writes registers, spills and shared memory of every kernel, and compiles all of them anew\n";

constexpr std::string_view kDefaultPlace = "default";

struct Options {
  std::string archs, output, resources;
  std::vector<std::string> nvrtc;
  int jobs = 0;
};

bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view key = argv[i];
    const char* value = argv[i + 1];
    if (key == "--archs")
      options.archs = value;
    else if (key == "--output")
      options.output = value;
    else if (key == "--nvrtc")
      options.nvrtc.emplace_back(value);
    else if (key == "--jobs")
      options.jobs = std::atoi(value);
    else if (key == "--resources")
      options.resources = value;
    else
      return false;
  }
  if (options.nvrtc.empty()) options.nvrtc.emplace_back(kDefaultPlace);
  return argc % 2 == 1 && !options.archs.empty() && !options.output.empty();
}

// A place that is named must hold one; the default place may be empty as long as another is not.
Status open_compilers(const Options& options, std::vector<std::unique_ptr<fovea::cuda::Nvrtc>>& out) {
  Status nothing;
  for (const std::string& place : options.nvrtc) {
    std::unique_ptr<fovea::cuda::Nvrtc> nvrtc;
    const bool is_default = place == kDefaultPlace;
    const Status status = fovea::cuda::Nvrtc::open(is_default ? "" : place, fovea::cuda::Nvrtc::kNewestMajor, nvrtc);
    if (status.ok())
      out.push_back(std::move(nvrtc));
    else if (!is_default)
      return {FOVEA_INVALID_VALUE, "--nvrtc " + place + ": " + status.message()};
    else
      nothing = status;
  }
  return out.empty() ? nothing : Status();
}

Status parse_archs(const Options& options, const std::vector<const fovea::cuda::Nvrtc*>& compilers,
                   std::vector<fovea::CudaArch>& out) {
  if (options.archs == "all") {
    for (const fovea::CudaArchRow& row : fovea::kCudaArchs) {
      for (const fovea::cuda::Nvrtc* nvrtc : compilers) {
        if (!nvrtc->supports(row.arch)) continue;
        out.push_back(row.arch);
        break;
      }
    }
    return {};
  }
  for (size_t at = 0; at <= options.archs.size();) {
    const size_t comma = std::min(options.archs.find(',', at), options.archs.size());
    const std::string text = options.archs.substr(at, comma - at);
    const fovea::CudaArchRow* row = fovea::find_cuda_arch(text);
    if (row == nullptr) {
      return fovea::invalid_value("--archs", "\"" + text + "\"", "must be of " + fovea::cuda_arch_names());
    }
    out.push_back(row->arch);
    at = comma + 1;
  }
  return {};
}

void print_summary(const std::string& file, const std::vector<BuiltKernel>& built, uint64_t bytes, double seconds) {
  size_t compiled = 0;
  double longest = 0;
  for (const BuiltKernel& kernel : built) {
    compiled += kernel.compiled;
    longest = std::max(longest, kernel.seconds);
  }
  std::printf("%s: %zu kernels, %.1f KB, %zu compiled in %.2f s (the longest took %.2f s)\n", file.c_str(),
              built.size(), static_cast<double>(bytes) / 1024, compiled, seconds, longest);
}

Status run(const Options& options, const std::vector<const fovea::cuda::Nvrtc*>& compilers) {
  std::vector<fovea::CudaArch> archs;
  FOVEA_TRY(parse_archs(options, compilers, archs));
  std::error_code error;
  std::filesystem::create_directories(options.output, error);
  std::string table = "arch\tkernel\tregisters\tstack\tspills\tshared\tbytes\n";
  for (const fovea::CudaArch& arch : archs) {
    const auto start = std::chrono::steady_clock::now();
    const std::string file = fovea::cuda::Bundle::file_name(arch);
    const std::string path = options.output + "/" + file;
    const fovea::cuda::BuildOptions build{.arch = arch,
                                          .compilers = compilers,
                                          .cache = options.resources.empty() ? options.output + "/cache" : "",
                                          .threads = options.jobs};
    std::vector<BuiltKernel> built;
    FOVEA_TRY(fovea::cuda::build_bundle(fovea::catalogue(arch), build, path, built));
    print_summary(file, built, std::filesystem::file_size(path, error),
                  std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    for (const BuiltKernel& kernel : built) {
      const fovea::cuda::Resources& used = kernel.resources;
      for (const std::string& cell :
           {fovea::name(arch), kernel.name, std::to_string(used.registers), std::to_string(used.stack_bytes),
            std::to_string(used.spill_bytes), std::to_string(used.smem_bytes)}) {
        table += cell + "\t";
      }
      table += std::to_string(kernel.bytes) + "\n";
    }
  }
  if (options.resources.empty()) return {};
  std::ofstream out(options.resources);
  out << table;
  out.close();
  return out ? Status() : Status(FOVEA_IO, options.resources + ": cannot write it");
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  std::vector<std::unique_ptr<fovea::cuda::Nvrtc>> owned;
  const Status found = open_compilers(options, owned);
  if (!found.ok()) {
    const bool fault = found.code() == FOVEA_INVALID_VALUE;
    std::fprintf(fault ? stderr : stdout, "No kernel bundle is made: %s\n", found.message().c_str());
    return fault ? 1 : 0;
  }
  std::vector<const fovea::cuda::Nvrtc*> compilers;
  for (const auto& nvrtc : owned) compilers.push_back(nvrtc.get());
  const Status status = run(options, compilers);
  if (status.ok()) return 0;
  std::fprintf(stderr, "fovea_bundle: %s\n", status.message().c_str());
  return 1;
}
