// SPDX-License-Identifier: Apache-2.0
// Every wrapper of kernels/ptx compiled for each architecture that has its instruction: wrong PTX is found without a
// device. Volta where tools/fetch_nvrtc.sh has put a compiler for it.
#include "backend/cuda/cubin.h"
#include "backend/cuda/temporary.h"
#include "cuda/instructions.h"

namespace fovea::cuda {
namespace {

// The compiler for the architecture; null: none.
const Nvrtc* compiler_for(const CudaArch& arch) {
  if (machine_nvrtc() != nullptr && machine_nvrtc()->supports(arch)) return machine_nvrtc();
  static std::unique_ptr<Nvrtc> older;
  static const Status status = Nvrtc::open(FOVEA_SOURCE_DIR "/.cache/nvrtc-12", 12, older);
  return status.ok() && older->supports(arch) ? older.get() : nullptr;
}

Status compile(const Nvrtc& nvrtc, const KernelRequest& request, Compiled& out) {
  KernelSource source;
  FOVEA_TRY(make_kernel_source(test_sources(), request, source));
  return nvrtc.compile(source, out);
}

class InstructionArch : public testing::TestWithParam<const char*> {};

TEST_P(InstructionArch, CompilesItsInstructions) {
  const CudaArch arch = find_cuda_arch(GetParam())->arch;
  const Nvrtc* nvrtc = compiler_for(arch);
  if (nvrtc == nullptr) GTEST_SKIP() << "no NVRTC for sm_" << GetParam();
  for (const InstructionFile& file : instruction_files()) {
    if (arch.number < file.oldest) continue;
    Compiled out;
    const KernelRequest request = instruction_request(file.name, file.entries[0], file.constants, arch);
    const Status status = compile(*nvrtc, request, out);
    EXPECT_TRUE(status.ok()) << status.message();
    if (!status.ok()) continue;
    for (const char* entry : file.entries) {
      Resources used;
      const Status found = read_resources(out.cubin, entry, arch, used);
      EXPECT_TRUE(found.ok()) << found.message() << " for sm_" << GetParam();
      // Fragments stay in registers; the compiler has a frame of its own for tensor copies on sm_120f.
      EXPECT_LE(used.local_bytes, 8) << entry << " for sm_" << GetParam();
    }
  }
}

// Functions that are not used may be of any later architecture.
TEST_P(InstructionArch, CompilesEachHeaderAlone) {
  const CudaArch arch = find_cuda_arch(GetParam())->arch;
  const Nvrtc* nvrtc = compiler_for(arch);
  if (nvrtc == nullptr) GTEST_SKIP() << "no NVRTC for sm_" << GetParam();
  int count = 0;
  for (const Source& file : Sources::instance().all()) {
    const std::string name = file.name;
    if (!name.starts_with("backend/cuda/kernels/ptx/")) continue;
    ++count;
    KernelSource source;
    source.name = name + " alone for sm_" + GetParam();
    source.program = "#include \"" + name + "\"\nextern \"C\" __global__ void entry(int* out) { *out = 1; }\n";
    ASSERT_TRUE(Sources::instance().reachable(name, source.headers).ok());
    source.options = {"-arch=sm_" + fovea::name(arch), "-std=c++20", "-default-device"};
    Compiled out;
    const Status status = nvrtc->compile(source, out);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  EXPECT_GE(count, 19);
}

INSTANTIATE_TEST_SUITE_P(All, InstructionArch,
                         testing::Values("70", "75", "80", "86", "87", "89", "90a", "100f", "110f", "120f"),
                         [](const auto& arch) { return std::string("sm_") + arch.param; });

// wgmma exists on sm_90a alone: every N with every form that an attention kernel takes, and every form with N = 64.
TEST(InstructionWgmma, CompilesForHopper) {
  const CudaArch arch = find_cuda_arch("90a")->arch;
  const Nvrtc* nvrtc = compiler_for(arch);
  if (nvrtc == nullptr) GTEST_SKIP() << "no NVRTC for sm_90a";
  for (const WgmmaForm& form : wgmma_forms()) {
    Compiled out;
    const Status status = compile(*nvrtc, instruction_request("wgmma", "wgmma", form.constants(), arch), out);
    EXPECT_TRUE(status.ok()) << status.message();
    if (!status.ok()) continue;
    Resources used;
    EXPECT_TRUE(read_resources(out.cubin, "wgmma", arch, used).ok());
    EXPECT_EQ(used.local_bytes, 0) << form.n;
    // The compiler's word for products that it made wait for one another.
    EXPECT_EQ(out.log.find("serialized"), std::string::npos) << out.log;
  }
}

// The first architecture of each row of the table is the first that the compiler lets through.
TEST(InstructionFiles, NoOlderArchitectureHasThem) {
  SKIP_WITHOUT_NVRTC();
  int refused = 0;
  for (const InstructionFile& file : instruction_files()) {
    const CudaArchRow* older = nullptr;
    for (const CudaArchRow& row : kCudaArchs) {
      if (row.arch.number < file.oldest) older = &row;
    }
    const Nvrtc* nvrtc = older != nullptr ? compiler_for(older->arch) : nullptr;
    if (nvrtc == nullptr) continue;
    Compiled out;
    const Status status =
        compile(*nvrtc, instruction_request(file.name, file.entries[0], file.constants, older->arch), out);
    EXPECT_FALSE(status.ok()) << file.name << " compiles for sm_" << fovea::name(older->arch);
    EXPECT_NE(status.message().find(" requires .target sm_" + std::to_string(file.oldest)), std::string::npos)
        << status.message();
    ++refused;
  }
  EXPECT_GE(refused, 14);
}

TEST(InstructionWgmma, ExistsOnHopperAlone) {
  SKIP_WITHOUT_NVRTC();
  for (const char* name : {"89", "100f", "110f", "120f"}) {
    const CudaArch arch = find_cuda_arch(name)->arch;
    if (compiler_for(arch) == nullptr) continue;
    Compiled out;
    const Status status =
        compile(*compiler_for(arch), instruction_request("wgmma", "wgmma", wgmma_forms()[0].constants(), arch), out);
    EXPECT_FALSE(status.ok()) << name;
    EXPECT_NE(status.message().find("'wgmma"), std::string::npos) << status.message();
  }
}

}  // namespace
}  // namespace fovea::cuda
