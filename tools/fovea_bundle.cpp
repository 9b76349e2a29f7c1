// SPDX-License-Identifier: Apache-2.0
// fovea_bundle: compiles the catalogue of kernels into one bundle for each architecture. Part of the build.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "backend/cuda/build_bundle.h"
#include "backend/cuda/bundle.h"
#include "backend/cuda/kernel_table.h"
#include "backend/cuda/nvrtc.h"
#include "backend/cuda/sources.h"
#include "plan/catalogue.h"

namespace {

using fovea::Status;
using fovea::cuda::BuiltBundle;
using fovea::cuda::BuiltKernel;
using fovea::cuda::KernelTable;

constexpr char kUsage[] =
    "fovea_bundle --archs 80,90a --output FOLDER [--nvrtc PATH]... [--jobs N] [--sample] [--fresh] [--table FILE]\n"
    "             [--check FILE] [--record FILE]\n"
    "  --archs   architectures, by commas; \"all\": every one that a given NVRTC compiles for\n"
    "  --output  where fovea-sm_<arch>.bundle goes; FOLDER/cache keeps what is compiled already\n"
    "  --nvrtc   libnvrtc or a folder that holds it, or \"default\" for where the loader finds it; several: each\n"
    "            architecture takes the first that knows it\n"
    "  --jobs    threads; 0: one for each core\n"
    "  --sample  one kernel of each operation and family only\n"
    "  --fresh   compiles everything anew\n"
    "  --table   compiles everything anew and writes registers, spills, local and shared memory of every kernel;\n"
    "            architectures that are not built keep their rows\n"
    "  --check   fails where a kernel is not in this table, or keeps more in local memory than it says; without\n"
    "            --sample also where the table is not of this catalogue\n"
    "  --record  writes how many kernels were compiled in how many seconds, as JSON\n";

constexpr std::string_view kDefaultPlace = "default";
constexpr uint64_t kMostBundleBytes = 40'000'000;  // what one architecture may cost a package

struct Options {
  std::string archs, output, table, check, record;
  std::vector<std::string> nvrtc;
  int jobs = 0;
  bool sample = false, fresh = false;
};

bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view key = argv[i];
    if (key == "--sample" || key == "--fresh") {
      (key == "--sample" ? options.sample : options.fresh) = true;
      continue;
    }
    if (++i == argc) return false;
    const std::string value = argv[i];
    if (key == "--archs")
      options.archs = value;
    else if (key == "--output")
      options.output = value;
    else if (key == "--nvrtc")
      options.nvrtc.push_back(value);
    else if (key == "--jobs")
      options.jobs = std::atoi(value.c_str());
    else if (key == "--table")
      options.table = value;
    else if (key == "--check")
      options.check = value;
    else if (key == "--record")
      options.record = value;
    else
      return false;
  }
  if (options.nvrtc.empty()) options.nvrtc.emplace_back(kDefaultPlace);
  options.fresh |= !options.table.empty();  // spills are in the compiler's log alone
  // A table or a record of a sample would look like one of everything.
  const bool whole = options.table.empty() && options.record.empty();
  return !options.archs.empty() && !options.output.empty() && (whole || !options.sample);
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

Status read_table(const std::string& path, KernelTable& out) {
  std::ifstream file(path);
  if (!file) return {FOVEA_IO, path + ": cannot open it"};
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const Status status = KernelTable::parse(text, out);
  return status.ok() ? Status() : Status(status.code(), path + ": " + status.message());
}

Status write_text(const std::string& path, const std::string& text) {
  std::ofstream out(path);
  out << text;
  out.close();
  return out ? Status() : Status(FOVEA_IO, path + ": cannot write it");
}

// What one architecture took.
struct Built {
  fovea::CudaArch arch;
  BuiltBundle bundle;
  double seconds = 0;

  size_t compiled() const {
    size_t count = 0;
    for (const BuiltKernel& kernel : bundle.kernels) count += kernel.compiled;
    return count;
  }
  double longest() const {
    double longest = 0;
    for (const BuiltKernel& kernel : bundle.kernels) longest = std::max(longest, kernel.seconds);
    return longest;
  }
};

void print_summary(const Built& built) {
  size_t spilling = 0;
  for (const BuiltKernel& kernel : built.bundle.kernels) spilling += kernel.resources.local_bytes > 0;
  std::printf(
      "%s: %zu kernels, %.2f MB, NVRTC %s, %zu compiled in %.1f s (the longest took %.1f s), %zu use local memory\n",
      fovea::cuda::Bundle::file_name(built.arch).c_str(), built.bundle.kernels.size(),
      static_cast<double>(built.bundle.bytes) / 1e6, name(built.bundle.version).c_str(), built.compiled(),
      built.seconds, built.longest(), spilling);
  std::fflush(stdout);
}

std::string record_of(const std::vector<Built>& all, int threads) {
  std::string rows;
  size_t kernels = 0;
  double seconds = 0;
  for (const Built& built : all) {
    char row[256];
    std::snprintf(row, sizeof row,
                  "    {\"arch\": \"%s\", \"nvrtc\": \"%s\", \"kernels\": %zu, \"compiled\": %zu, \"seconds\": %.1f, "
                  "\"longest_seconds\": %.1f, \"bundle_bytes\": %llu}",
                  name(built.arch).c_str(), name(built.bundle.version).c_str(), built.bundle.kernels.size(),
                  built.compiled(), built.seconds, built.longest(),
                  static_cast<unsigned long long>(built.bundle.bytes));
    rows += (rows.empty() ? "" : ",\n") + std::string(row);
    kernels += built.bundle.kernels.size();
    seconds += built.seconds;
  }
  char head[256];
  std::snprintf(head, sizeof head, "{\n  \"kernels\": %zu,\n  \"seconds\": %.1f,\n  \"threads\": %d,\n", kernels,
                seconds, threads > 0 ? threads : static_cast<int>(std::thread::hardware_concurrency()));
  return head + ("  \"sources\": \"" + hex(fovea::cuda::Sources::instance().digest())) + "\",\n  \"archs\": [\n" +
         rows + "\n  ]\n}\n";
}

Status build_one(const Options& options, const std::vector<const fovea::cuda::Nvrtc*>& compilers, Built& built) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<fovea::KernelRequest> requests = fovea::catalogue(built.arch);
  if (options.sample) requests = fovea::sample(requests);
  const std::string path = options.output + "/" + fovea::cuda::Bundle::file_name(built.arch);
  FOVEA_TRY(fovea::cuda::build_bundle(requests,
                                      {.arch = built.arch,
                                       .compilers = compilers,
                                       .cache = options.fresh ? "" : options.output + "/cache",
                                       .threads = options.jobs},
                                      path, built.bundle));
  built.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  print_summary(built);
  if (built.bundle.bytes <= kMostBundleBytes) return {};
  return {FOVEA_INTERNAL, path + " has " + std::to_string(built.bundle.bytes) + " bytes: a bundle may have " +
                              std::to_string(kMostBundleBytes)};
}

// Writes what is known after each architecture, so that a run that is stopped leaves what it had done.
Status write_reports(const Options& options, const std::vector<Built>& all, KernelTable& table) {
  const Built& last = all.back();
  table.replace(last.arch, last.bundle.version, last.bundle.kernels);
  if (!options.table.empty()) FOVEA_TRY(write_text(options.table, table.text()));
  return options.record.empty() ? Status() : write_text(options.record, record_of(all, options.jobs));
}

Status run(const Options& options, const std::vector<const fovea::cuda::Nvrtc*>& compilers) {
  std::vector<fovea::CudaArch> archs;
  FOVEA_TRY(parse_archs(options, compilers, archs));
  std::error_code error;
  std::filesystem::create_directories(options.output, error);
  KernelTable table, expected;
  if (std::filesystem::exists(options.table, error)) FOVEA_TRY(read_table(options.table, table));
  if (!options.check.empty()) FOVEA_TRY(read_table(options.check, expected));
  std::vector<Built> all;
  std::vector<std::string> problems;
  for (const fovea::CudaArch& arch : archs) {
    Built& built = all.emplace_back(Built{.arch = arch, .bundle = {}});
    FOVEA_TRY(build_one(options, compilers, built));
    FOVEA_TRY(write_reports(options, all, table));
    if (options.check.empty()) continue;
    const auto add = [&](const std::vector<std::string>& found) {
      problems.insert(problems.end(), found.begin(), found.end());
    };
    add(expected.new_spills(arch, built.bundle.version, built.bundle.kernels));
    const std::vector<fovea::KernelRequest> all_of_arch = fovea::catalogue(arch);
    add(options.sample ? expected.missing_names(arch, fovea::sample(all_of_arch))
                       : expected.other_names(arch, all_of_arch));
  }
  for (const std::string& problem : problems) std::fprintf(stderr, "fovea_bundle: %s\n", problem.c_str());
  if (problems.empty()) return {};
  return {FOVEA_INTERNAL,
          options.check + " does not fit the kernels: avoid the spill, or write it anew with `make kernel-table`"};
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
