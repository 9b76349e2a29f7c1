// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/kernel_store.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include "backend/cuda/build_bundle.h"
#include "backend/cuda/temporary.h"
#include "plan/catalogue.h"

namespace fovea::cuda {
namespace {

constexpr CudaArch kArch{90, 'a'};

KernelSource selftest(int block = 128) {
  KernelSource source;
  EXPECT_TRUE(make_kernel_source(Sources::instance(), selftest_kernel(kArch, block), source).ok());
  return source;
}

class Store : public testing::Test {
 protected:
  Status open(const StoreOptions& options) { return KernelStore::open(options, store_); }
  StoreOptions options() const { return {.arch = kArch, .bundle = "", .cache_dir = cache_.c_str()}; }
  void save_bundle(const std::string& path, const std::string& cubin) const {
    const Bundle::Expected what{Sources::instance().digest(), kArch, 13};
    write(path, bundle_bytes(what, {13, 0}, {{selftest().key, cubin}}));
  }
  void fill_cache(const std::string& cubin, const NvrtcVersion& version) const {
    DiskCache cache(cache_);
    std::string out;
    bool compiled = false;
    const auto make = [&](std::string& made) -> Status {
      made = cubin;
      return {};
    };
    ASSERT_TRUE(cache.find_or_make(selftest().key, version, make, out, compiled).ok());
  }

  TemporaryFolder folder_;
  const std::string cache_ = folder_.path("cache");
  std::unique_ptr<KernelStore> store_;
  Code code_;
};

TEST_F(Store, WithoutAnythingTheErrorSaysWhereItWasLookedFor) {
  ASSERT_TRUE(open(options()).ok());
  const Status status = store_->fetch(selftest(), false, code_);
  EXPECT_EQ(status.code(), FOVEA_NOT_COMPILED);
  const std::string parts[] = {"kernel selftest<block=128> for sm_90a is not compiled", "bundle: none: turned off",
                               "cache: " + cache_, "compiling: not allowed by the context"};
  for (const std::string& part : parts) {
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  }
  EXPECT_FALSE(std::filesystem::exists(cache_)) << "a look writes nothing";
}

TEST_F(Store, WithoutACompilerTheErrorSaysSo) {
  StoreOptions options = this->options();
  options.nvrtc = folder_.path("nothing-here");
  ASSERT_TRUE(open(options).ok());
  const Status status = store_->fetch(selftest(), true, code_);
  EXPECT_EQ(status.code(), FOVEA_NOT_COMPILED);
  EXPECT_NE(status.message().find("compiling: NVRTC is not there (tried " + options.nvrtc), std::string::npos)
      << status.message();
  EXPECT_TRUE(store_->describe_nvrtc().starts_with("none: NVRTC is not there")) << store_->describe_nvrtc();
}

TEST_F(Store, TheBundleComesBeforeTheCache) {
  fill_cache("from the cache", {13, 0});
  StoreOptions options = this->options();
  ASSERT_TRUE(open(options).ok());
  ASSERT_TRUE(store_->fetch(selftest(), false, code_).ok());
  EXPECT_EQ(code_.cubin, "from the cache");
  EXPECT_EQ(code_.origin, Origin::cache);
  const std::string folder = folder_.path();
  options.bundle = folder.c_str();
  save_bundle(folder_.path("fovea-sm_90a.bundle"), "from the bundle");
  ASSERT_TRUE(open(options).ok());
  ASSERT_TRUE(store_->fetch(selftest(), false, code_).ok());
  EXPECT_EQ(code_.cubin, "from the bundle");
  EXPECT_EQ(code_.origin, Origin::bundle);
  EXPECT_EQ(store_->describe_bundle(), folder_.path("fovea-sm_90a.bundle") + ": 1 kernels, NVRTC 13.0");
}

TEST_F(Store, ADamagedKernelOfTheBundleIsLookedForElsewhere) {
  const std::string path = folder_.path("b.bundle");
  save_bundle(path, "from the bundle");
  std::string bytes = read(path);
  bytes.back() = '?';
  write(path, bytes);
  StoreOptions options = this->options();
  options.bundle = path.c_str();
  ASSERT_TRUE(open(options).ok());
  const Status status = store_->fetch(selftest(), false, code_);
  EXPECT_EQ(status.code(), FOVEA_NOT_COMPILED);
  EXPECT_NE(status.message().find("is damaged: the checksum of kernel"), std::string::npos) << status.message();
  fill_cache("from the cache", {13, 0});
  ASSERT_TRUE(store_->fetch(selftest(), false, code_).ok());
  EXPECT_EQ(code_.cubin, "from the cache");
}

TEST_F(Store, ABundleThatIsNamedMustBeGood) {
  StoreOptions options = this->options();
  const std::string absent = folder_.path("absent.bundle"), folder = folder_.path();
  options.bundle = absent.c_str();
  Status status = open(options);
  EXPECT_EQ(status.code(), FOVEA_IO);
  EXPECT_TRUE(status.message().starts_with("bundle is \"" + absent + "\": ")) << status.message();
  options.bundle = folder.c_str();
  EXPECT_EQ(open(options).code(), FOVEA_IO);
  save_bundle(folder_.path("fovea-sm_80.bundle"), "x");
  options.arch = {80, '\0'};
  status = open(options);
  EXPECT_NE(status.message().find("is for sm_90a: sm_80 is needed"), std::string::npos) << status.message();
}

TEST_F(Store, ABundleIsFoundWhereItIsInstalled) {
  StoreOptions options = this->options();
  options.bundle = nullptr;
  options.library_folder = folder_.path("lib");
  for (const char* below : {"lib", "lib/fovea", "kernels"}) {
    const std::string place = folder_.path(below), file = place + "/fovea-sm_90a.bundle";
    std::filesystem::create_directories(place);
    ASSERT_TRUE(open(options).ok());
    EXPECT_EQ(store_->describe_bundle(),
              "none: fovea-sm_90a.bundle is not beside the library (" + options.library_folder + ")");
    save_bundle(file, "code");
    ASSERT_TRUE(open(options).ok());
    EXPECT_TRUE(store_->describe_bundle().starts_with(file + ": ")) << store_->describe_bundle();
    // One of another library is left alone, and the reason told.
    write(file, bundle_bytes({{1, 1}, kArch, 13}, {13, 0}, {}));
    ASSERT_TRUE(open(options).ok());
    EXPECT_TRUE(store_->describe_bundle().starts_with("none: " + file + ": was compiled from other kernel sources"));
    std::filesystem::remove(file);
  }
}

TEST_F(Store, CodeOfANewerToolkitThanTheDriverIsNotTaken) {
  fill_cache("new", {13, 0});
  StoreOptions options = this->options();
  options.max_major = 12;
  ASSERT_TRUE(open(options).ok());
  EXPECT_EQ(store_->fetch(selftest(), false, code_).code(), FOVEA_NOT_COMPILED);
}

TEST_F(Store, CompilesOnceAndThenReads) {
  SKIP_WITHOUT_NVRTC();
  ASSERT_TRUE(open(options()).ok());
  ASSERT_TRUE(store_->fetch(selftest(), true, code_).ok());
  EXPECT_EQ(code_.origin, Origin::compiled);
  EXPECT_EQ(store_->compiled(), 1);
  const std::string cubin = code_.cubin;
  ASSERT_TRUE(store_->fetch(selftest(), false, code_).ok());
  EXPECT_EQ(code_.origin, Origin::cache);
  EXPECT_EQ(code_.cubin, cubin);
  EXPECT_EQ(store_->compiled(), 1);
}

TEST_F(Store, AnEntryOfAnotherCompilerIsTakenOnlyWithoutOne) {
  SKIP_WITHOUT_NVRTC();
  const NvrtcVersion other{machine_nvrtc()->version().major, machine_nvrtc()->version().minor + 1};
  fill_cache("other", other);
  ASSERT_TRUE(open(options()).ok());
  ASSERT_TRUE(store_->fetch(selftest(), false, code_).ok());
  EXPECT_EQ(code_.cubin, "other");
  ASSERT_TRUE(store_->fetch(selftest(), true, code_).ok());
  EXPECT_EQ(code_.origin, Origin::compiled);
}

TEST_F(Store, TheBuiltBundleHoldsWhatWasAskedFor) {
  SKIP_WITHOUT_NVRTC();
  for (const char* name : {"80", "90a"}) {
    const CudaArch arch = find_cuda_arch(name)->arch;
    const BuildOptions build{.arch = arch, .compilers = {machine_nvrtc()}, .cache = folder_.path("made"), .threads = 2};
    const std::vector<KernelRequest> requests = {selftest_kernel(arch, 128), selftest_kernel(arch, 256)};
    BuiltBundle built;
    const std::string path = folder_.path(Bundle::file_name(arch));
    ASSERT_TRUE(build_bundle(requests, build, path, built).ok());
    for (const BuiltKernel& kernel : built.kernels) EXPECT_TRUE(kernel.compiled) << kernel.name;
    const std::string first = read(path);
    EXPECT_EQ(built.bytes, first.size());
    EXPECT_EQ(built.version, machine_nvrtc()->version());
    ASSERT_TRUE(build_bundle(requests, build, path, built).ok());
    for (const BuiltKernel& kernel : built.kernels) EXPECT_FALSE(kernel.compiled) << kernel.name;
    EXPECT_EQ(read(path), first);
    const std::string folder = folder_.path();
    ASSERT_TRUE(open({.arch = arch, .bundle = folder.c_str(), .cache_dir = ""}).ok());
    for (const KernelRequest& request : requests) {
      KernelSource source;
      ASSERT_TRUE(make_kernel_source(Sources::instance(), request, source).ok());
      const Status status = store_->fetch(source, false, code_);
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(code_.origin, Origin::bundle);
    }
  }
}

TEST_F(Store, ABundleForAnArchitectureThatNoCompilerKnowsIsRefused) {
  SKIP_WITHOUT_NVRTC();
  BuiltBundle built;
  const Status status =
      build_bundle({}, {.arch = {52, '\0'}, .compilers = {machine_nvrtc()}}, folder_.path("b"), built);
  EXPECT_EQ(status.code(), FOVEA_UNSUPPORTED);
  EXPECT_NE(status.message().find("does not compile for sm_52"), std::string::npos) << status.message();
  EXPECT_FALSE(std::filesystem::exists(folder_.path("b")));
}

// Eight processes start at once on an empty cache: each gets the right code, and one of them compiles it.
TEST_F(Store, ColdStartOfEightProcesses) {
  SKIP_WITHOUT_NVRTC();
  const std::string go = folder_.path("go");
  const auto process = [&](int id) {
    wait_for_file(go);
    std::unique_ptr<KernelStore> store;
    Code code;
    for (const int block : {64, 128, 192}) {
      if (!KernelStore::open(options(), store).ok() || !store->fetch(selftest(block), true, code).ok()) return 1;
      const std::string result = folder_.path("result-" + std::to_string(id) + "-" + std::to_string(block));
      write(result, name(code.origin) + std::string(" ") + code.cubin);
    }
    return 0;
  };
  std::vector<std::unique_ptr<Child>> children;
  for (int id = 0; id < 8; ++id) children.push_back(std::make_unique<Child>([&] { return process(id); }));
  write(go, "");
  for (const auto& child : children) EXPECT_EQ(child->wait(), 0);
  for (const int block : {64, 128, 192}) {
    Compiled expected;
    ASSERT_TRUE(machine_nvrtc()->compile(selftest(block), expected).ok());
    int compiled = 0;
    for (int id = 0; id < 8; ++id) {
      const std::string result = read(folder_.path("result-" + std::to_string(id) + "-" + std::to_string(block)));
      compiled += result.starts_with("compiled ");
      EXPECT_EQ(result.substr(result.find(' ') + 1), expected.cubin) << id;
    }
    EXPECT_GE(compiled, 1);
    EXPECT_LE(compiled, 2);
  }
  for (const auto& entry : std::filesystem::directory_iterator(cache_)) {
    EXPECT_EQ(entry.path().extension(), ".kernel") << entry.path();
  }
}

}  // namespace
}  // namespace fovea::cuda
