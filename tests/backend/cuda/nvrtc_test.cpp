// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/nvrtc.h"

#include <gtest/gtest.h>

#include <cstring>

#include "backend/cuda/cubin.h"
#include "backend/cuda/temporary.h"
#include "plan/catalogue.h"

namespace fovea::cuda {
namespace {

// The machine code of a cubin: bits 8 to 15 of the ELF header's flags hold the number of the architecture from CUDA
// 13's format on, the low byte before it.
bool is_code_for(const std::string& cubin, int number) {
  uint32_t flags = 0;
  std::memcpy(&flags, cubin.data() + 48, sizeof flags);
  return (flags >> 8 & 0xFF) == static_cast<uint32_t>(number) || (flags & 0xFF) == static_cast<uint32_t>(number);
}

// One small kernel: `make kernels-check` compiles one of each family for every architecture.
void compile_selftest(const Nvrtc& nvrtc, const CudaArch& arch) {
  for (const KernelRequest& request : {selftest_kernel(arch, 128)}) {
    KernelSource source;
    ASSERT_TRUE(make_kernel_source(Sources::instance(), request, source).ok());
    Compiled out;
    const Status status = nvrtc.compile(source, out);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(is_code_for(out.cubin, arch.number)) << source.name;
    EXPECT_NE(out.cubin.find(std::string(request.entry)), std::string::npos);
    Resources used;
    ASSERT_TRUE(read_resources(out.cubin, std::string(request.entry), arch, used).ok()) << source.name;
    EXPECT_GT(used.registers, 0) << source.name;
  }
}

class NvrtcArch : public testing::TestWithParam<const char*> {};

TEST_P(NvrtcArch, CompilesForTheArchitecture) {
  SKIP_WITHOUT_NVRTC();
  const CudaArch arch = find_cuda_arch(GetParam())->arch;
  if (machine_nvrtc()->supports(arch)) return compile_selftest(*machine_nvrtc(), arch);
  // Volta: the last NVRTC that knows it, where tools/fetch_nvrtc.sh has put it.
  std::unique_ptr<Nvrtc> older;
  const Status status = Nvrtc::open(FOVEA_SOURCE_DIR "/.cache/nvrtc-12", 12, older);
  if (!status.ok() || !older->supports(arch)) GTEST_SKIP() << "no NVRTC for sm_" << GetParam();
  compile_selftest(*older, arch);
}

INSTANTIATE_TEST_SUITE_P(All, NvrtcArch,
                         testing::Values("70", "75", "80", "86", "87", "89", "90a", "100f", "110f", "120f"),
                         [](const auto& arch) { return std::string("sm_") + arch.param; });

KernelSource source_of(const std::string& program, const Sources& sources) {
  KernelSource source;
  source.name = "a test for sm_80";
  source.program = program;
  for (const Source& file : sources.all()) source.headers.push_back(&file);
  source.options = {"-arch=sm_80", "-std=c++20", "-default-device"};
  return source;
}

TEST(Nvrtc, CompilesEachSharedHeaderAlone) {
  SKIP_WITHOUT_NVRTC();
  int count = 0;
  for (const Source& file : Sources::instance().all()) {
    const std::string name = file.name;
    if (!name.starts_with("shared/")) continue;
    ++count;
    const KernelSource source = source_of(
        "#include \"" + name + "\"\nextern \"C\" __global__ void entry(int* out) { *out = 1; }\n", Sources::instance());
    Compiled out;
    const Status status = machine_nvrtc()->compile(source, out);
    EXPECT_TRUE(status.ok()) << name << "\n" << status.message();
  }
  EXPECT_GE(count, 15);
}

TEST(Nvrtc, AnErrorIsAStatusWithTheLog) {
  SKIP_WITHOUT_NVRTC();
  Compiled out{.cubin = "untouched", .log = ""};
  const Status status = machine_nvrtc()->compile(
      source_of("extern \"C\" __global__ void entry(int* out) {\n*out = nonsense; }\n", Sources::instance()), out);
  EXPECT_EQ(status.code(), FOVEA_INTERNAL);
  EXPECT_NE(status.message().find("compiling a test for sm_80 with NVRTC "), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("kernel.cu(2): error: identifier \"nonsense\" is undefined"), std::string::npos)
      << status.message();
  EXPECT_EQ(out.cubin, "untouched");
}

TEST(Nvrtc, AnIncludeThatIsNotEmbeddedIsAnError) {
  SKIP_WITHOUT_NVRTC();
  Compiled out;
  EXPECT_FALSE(machine_nvrtc()->compile(source_of("#include <cuda_bf16.h>\n", Sources::instance()), out).ok());
}

TEST(Nvrtc, AMissingLibrarySaysWhereItWasLookedFor) {
  const TemporaryFolder empty;
  std::unique_ptr<Nvrtc> nvrtc;
  const Status in_folder = Nvrtc::open(empty.path(), 13, nvrtc);
  EXPECT_EQ(in_folder.code(), FOVEA_IO);
  EXPECT_NE(in_folder.message().find(empty.path("lib64/libnvrtc.so.13")), std::string::npos) << in_folder.message();
  EXPECT_NE(in_folder.message().find(empty.path("nvidia/cuda_nvrtc/lib/libnvrtc.so.12")), std::string::npos);
  const Status file = Nvrtc::open(empty.path("libnvrtc.so.13"), 13, nvrtc);
  EXPECT_EQ(file.code(), FOVEA_IO);
  write(empty.path("libnvrtc.so.13"), "not a library");
  EXPECT_EQ(Nvrtc::open(empty.path(), 13, nvrtc).code(), FOVEA_IO);
  EXPECT_EQ(nvrtc, nullptr);
}

TEST(Nvrtc, ALibraryNewerThanTheDriverIsRefused) {
  SKIP_WITHOUT_NVRTC();
  const int older = machine_nvrtc()->version().major - 1;
  std::unique_ptr<Nvrtc> nvrtc;
  const Status status = Nvrtc::open(machine_nvrtc()->path(), older, nvrtc);
  EXPECT_EQ(status.code(), FOVEA_UNSUPPORTED);
  EXPECT_NE(status.message().find("the driver loads code of CUDA " + std::to_string(older) + " at most"),
            std::string::npos)
      << status.message();
}

}  // namespace
}  // namespace fovea::cuda
