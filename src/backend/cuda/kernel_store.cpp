// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/kernel_store.h"

#include <filesystem>

#include "backend/cuda/shared_library.h"

namespace fovea::cuda {

namespace {

namespace fs = std::filesystem;

// The folders, relative to the one of the library or of a program that it is linked into, where a bundle may stand:
// beside it, installed in lib/fovea, and in a build tree.
constexpr const char* kBundleFolders[] = {".", "fovea", "../lib/fovea", "../" FOVEA_LIBDIR "/fovea", "../kernels"};

std::string folder_of_library() {
  static const int anchor = 0;
  const std::string path = library_path_of(&anchor);
  if (path.empty()) return "";
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  return error ? "" : real.parent_path().string();
}

}  // namespace

const char* name(Origin origin) {
  switch (origin) {
    case Origin::bundle:
      return "bundle";
    case Origin::cache:
      return "cache";
    case Origin::compiled:
      return "compiled";
  }
  return "?";
}

KernelStore::KernelStore(const StoreOptions& options, const std::string& cache_folder, const std::string& no_cache)
    : options_(options), cache_(cache_folder, no_cache) {}

Status KernelStore::open(const StoreOptions& options, std::unique_ptr<KernelStore>& out) {
  const std::string folder = options.cache_dir ? options.cache_dir : DiskCache::default_folder();
  const char* reason = options.cache_dir ? "turned off" : "neither XDG_CACHE_HOME nor HOME names a folder";
  std::unique_ptr<KernelStore> store(new KernelStore(options, folder, reason));
  if (options.bundle == nullptr) {
    store->look_for_bundle();
  } else if (options.bundle[0] == '\0') {
    store->no_bundle_ = "turned off";
  } else {
    FOVEA_TRY(store->open_named_bundle());
  }
  out = std::move(store);
  return {};
}

Status KernelStore::open_named_bundle() {
  const Bundle::Expected expected{Sources::instance().digest(), options_.arch, options_.max_major};
  const std::string named = options_.bundle;
  std::error_code ignored;
  const bool folder = fs::is_directory(named, ignored);
  const Status status =
      Bundle::open(folder ? named + "/" + Bundle::file_name(options_.arch) : named, expected, bundle_);
  return status.ok() ? Status() : Status(status.code(), "bundle is \"" + named + "\": " + status.message());
}

// The first one that fits; where one is there that does not, its reason is kept.
void KernelStore::look_for_bundle() {
  const Bundle::Expected expected{Sources::instance().digest(), options_.arch, options_.max_major};
  const std::string file = Bundle::file_name(options_.arch);
  const std::string base = options_.library_folder.empty() ? folder_of_library() : options_.library_folder;
  no_bundle_ = file + " is not beside the library" + (base.empty() ? "" : " (" + base + ")");
  if (base.empty()) return;
  for (const char* below : kBundleFolders) {
    const std::string path = (fs::path(base) / below / file).lexically_normal().string();
    std::error_code ignored;
    if (!fs::exists(path, ignored)) continue;
    const Status status = Bundle::open(path, expected, bundle_);
    if (status.ok()) return;
    no_bundle_ = status.message();
  }
}

Status KernelStore::compiler(const Nvrtc*& out) {
  const std::lock_guard lock(mutex_);
  if (nvrtc_ == nullptr) FOVEA_TRY(Nvrtc::open(options_.nvrtc, options_.max_major, nvrtc_));
  out = nvrtc_.get();
  return {};
}

Status KernelStore::fetch(const KernelSource& source, bool may_compile, Code& out) {
  std::string bundle_problem;
  if (bundle_ != nullptr && bundle_->contains(source.key)) {
    const Status status = bundle_->read(source.key, out.cubin);
    out.origin = Origin::bundle;
    out.version = bundle_->version();
    if (status.ok()) return {};
    bundle_problem = "; " + status.message();
  }
  // A cache entry of the compiler at hand is taken before one of another version; without one any that loads will do.
  const Nvrtc* nvrtc = nullptr;
  Status compiler_status;
  if (may_compile) {
    compiler_status = compiler(nvrtc);
    if (compiler_status.ok() && !nvrtc->supports(options_.arch)) {
      compiler_status = unsupported(nvrtc->path() + " is NVRTC " + name(nvrtc->version()) +
                                    ", which does not compile for sm_" + name(options_.arch));
      nvrtc = nullptr;
    }
  }
  DiskCache::Entry entry;
  if (cache_.find(source.key, nvrtc ? nvrtc->version() : NvrtcVersion{}, options_.max_major, entry)) {
    out = {std::move(entry.cubin), Origin::cache, entry.version};
    return {};
  }
  if (nvrtc == nullptr) {
    return {FOVEA_NOT_COMPILED, "kernel " + source.name + " is not compiled: bundle: " + describe_bundle() +
                                    bundle_problem + "; cache: " + cache_.describe() + "; compiling: " +
                                    (may_compile ? compiler_status.message() : "not allowed by the context")};
  }
  bool compiled = false;
  const auto compile = [&](std::string& cubin) -> Status {
    Compiled made;
    FOVEA_TRY(nvrtc->compile(source, made));
    cubin = std::move(made.cubin);
    return {};
  };
  FOVEA_TRY(cache_.find_or_make(source.key, nvrtc->version(), compile, out.cubin, compiled));
  out.origin = compiled ? Origin::compiled : Origin::cache;
  out.version = nvrtc->version();
  if (compiled) ++compiled_;
  return {};
}

std::string KernelStore::describe_bundle() const {
  if (bundle_ == nullptr) return "none: " + no_bundle_;
  return bundle_->path() + ": " + std::to_string(bundle_->count()) + " kernels, NVRTC " + name(bundle_->version());
}

std::string KernelStore::describe_nvrtc() {
  const Nvrtc* nvrtc = nullptr;
  const Status status = compiler(nvrtc);
  return status.ok() ? name(nvrtc->version()) + " " + nvrtc->path() : "none: " + status.message();
}

}  // namespace fovea::cuda
