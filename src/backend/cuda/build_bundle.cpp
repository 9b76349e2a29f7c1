// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/build_bundle.h"

#include <algorithm>
#include <chrono>

#include "backend/cuda/bundle.h"
#include "backend/cuda/disk_cache.h"
#include "backend/cuda/on_threads.h"

namespace fovea::cuda {

namespace {

Status choose_compiler(const BuildOptions& options, const Nvrtc*& out) {
  std::string had;
  for (const Nvrtc* nvrtc : options.compilers) {
    if (nvrtc->supports(options.arch)) {
      out = nvrtc;
      return {};
    }
    had += (had.empty() ? "" : ", ") + name(nvrtc->version());
  }
  return unsupported(
      "NVRTC " + had + " does not compile for sm_" + name(options.arch) +
      (options.arch.number < 75 ? "; the last one that does is 12.9 (PyPI: nvidia-cuda-nvrtc-cu12)" : ""));
}

Status build_one(const KernelRequest& request, const Nvrtc& nvrtc, DiskCache& cache, BuiltKernel& built,
                 BundleKernel& code) {
  const auto start = std::chrono::steady_clock::now();
  KernelSource source;
  FOVEA_TRY(make_kernel_source(Sources::instance(), request, source));
  built.name = code.name = name(request);
  built.key = code.key = source.key;
  const auto compile = [&](std::string& cubin) -> Status {
    Compiled made;
    FOVEA_TRY(nvrtc.compile(source, made));
    cubin = std::move(made.cubin);
    built.spill_bytes = spill_bytes(made.log, std::string(request.entry));
    return {};
  };
  DiskCache::Entry entry;
  if (cache.find(source.key, nvrtc.version(), 0, entry)) {
    code.cubin = std::move(entry.cubin);
  } else {
    FOVEA_TRY(cache.find_or_make(source.key, nvrtc.version(), compile, code.cubin, built.compiled));
  }
  built.bytes = code.cubin.size();
  built.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return read_resources(code.cubin, std::string(request.entry), request.arch, built.resources);
}

}  // namespace

Status build_bundle(const std::vector<KernelRequest>& requests, const BuildOptions& options, const std::string& path,
                    BuiltBundle& out) {
  const Nvrtc* nvrtc = nullptr;
  FOVEA_TRY(choose_compiler(options, nvrtc));
  DiskCache cache(options.cache);
  std::vector<BundleKernel> codes(requests.size());
  BuiltBundle built{.version = nvrtc->version(), .kernels = std::vector<BuiltKernel>(requests.size())};
  FOVEA_TRY(on_threads(requests.size(), options.threads,
                       [&](size_t i) { return build_one(requests[i], *nvrtc, cache, built.kernels[i], codes[i]); }));
  const std::string file = bundle_bytes({.source_digest = Sources::instance().digest(), .arch = options.arch},
                                        nvrtc->version(), std::move(codes));
  built.bytes = file.size();
  FOVEA_TRY(publish_file(path, file));
  out = std::move(built);
  return {};
}

}  // namespace fovea::cuda
