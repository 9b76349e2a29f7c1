// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/cubin.h"

#include <gtest/gtest.h>

#include <climits>
#include <cstdio>
#include <string>

#include "backend/cuda/cubin_file.h"
#include "backend/cuda/nvrtc.h"
#include "backend/cuda/temporary.h"

namespace fovea::cuda {
namespace {

// Keeps an array and more values than 32 registers hold, and calls a function that stays one.
constexpr char kProgram[] = R"(
__device__ __noinline__ float helper(float x) { float b[64]; for (int i = 0; i < 64; ++i) b[i] = x * i; return b[(int)x & 63]; }
extern "C" __global__ void __launch_bounds__(96 * 2) entry(float* p, int n) {
  __shared__ float s[300];
  float a[40];
  for (int i = 0; i < 40; ++i) a[i] = p[i * n];
  s[threadIdx.x] = a[n & 31];
  __syncthreads();
  float x = helper(p[3]);
  for (int i = 0; i < 40; ++i) x += a[i] * s[i] * a[(i * 7) % 40];
  p[threadIdx.x] = x + a[n % 40];
}
extern "C" __global__ void plain(float* p) { *p = 1; }
)";

Compiled compile(const char* arch) {
  KernelSource source;
  source.name = "a test";
  source.program = kProgram;
  source.options = {std::string("-arch=sm_") + arch, "-std=c++20", "-maxrregcount=32", "-Xptxas=-v"};
  Compiled out;
  const Status status = machine_nvrtc()->compile(source, out);
  EXPECT_TRUE(status.ok()) << status.message();
  return out;
}

int number_after(const std::string& log, const std::string& words, size_t from) {
  const size_t at = log.find(words, from);
  return at == std::string::npos ? 0 : std::atoi(log.c_str() + at + words.size());
}

class CubinOf : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Cubin, CubinOf, testing::Values("75", "80", "90a", "100f", "120f"),
                         [](const auto& arch) { return std::string("sm_") + arch.param; });

TEST_P(CubinOf, SaysWhatTheCompilerSays) {
  SKIP_WITHOUT_NVRTC();
  const Compiled compiled = compile(GetParam());
  const CudaArch arch = find_cuda_arch(GetParam())->arch;
  Resources entry, plain;
  ASSERT_TRUE(read_resources(compiled.cubin, "entry", arch, entry).ok());
  ASSERT_TRUE(read_resources(compiled.cubin, "plain", arch, plain).ok());
  const std::string& log = compiled.log;
  const size_t at = log.find("Function properties for entry\n");
  ASSERT_NE(at, std::string::npos) << log;
  EXPECT_EQ(entry.registers, number_after(log, "Used ", at)) << log;
  int stack = -1;
  ASSERT_EQ(std::sscanf(log.c_str() + log.find('\n', at), "%*[^0-9]%d bytes stack frame", &stack), 1) << log;
  EXPECT_EQ(entry.local_bytes, stack) << log;
  EXPECT_GE(entry.local_bytes, 160);
  EXPECT_GE(spill_bytes(log, "entry"), 0) << log;
  EXPECT_EQ(entry.smem_bytes, 1200);
  EXPECT_EQ(entry.max_threads, 192);
  EXPECT_EQ(plain.local_bytes, 0);
  EXPECT_EQ(plain.smem_bytes, 0);
  EXPECT_EQ(plain.max_threads, 1024);
  EXPECT_EQ(read_resources(compiled.cubin, "other", arch, plain).message(), "a cubin has no entry other");
}

TEST(Cubin, SpillsAreThoseOfTheEntry) {
  const std::string log =
      "ptxas info    : Compiling entry function 'run' for 'sm_90a'\n"
      "ptxas info    : Function properties for run\n"
      "ptxas         .     48 bytes stack frame, 16 bytes spill stores, 20 bytes spill loads\n"
      "ptxas info    : Used 168 registers, used 1 barriers, 144 bytes smem, 368 bytes cmem[0]\n"
      "ptxas info    : Function properties for runner\n"
      "ptxas         .     8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\n";
  EXPECT_EQ(spill_bytes(log, "run"), 36);
  EXPECT_EQ(spill_bytes(log, "runner"), 8);
  EXPECT_EQ(spill_bytes(log, "other"), -1);
  EXPECT_EQ(spill_bytes("ptxas info    : Function properties for run\n", "run"), -1);
}

TEST(Cubin, ReadsAFileWithoutCode) {
  Resources used;
  const std::string file =
      cubin_file("run", {.registers = 40, .local_bytes = 16, .smem_bytes = 1200, .max_threads = 256});
  ASSERT_TRUE(read_resources(file, "run", {80, '\0'}, used).ok());
  EXPECT_EQ(used.registers, 40);
  EXPECT_EQ(used.local_bytes, 16);
  EXPECT_EQ(used.max_threads, 256);
  EXPECT_EQ(used.smem_bytes, 1200);
  ASSERT_TRUE(read_resources(file, "run", {90, 'a'}, used).ok());
  EXPECT_EQ(used.smem_bytes, 1200 - 1024);
  EXPECT_FALSE(read_resources(file, "ru", {80, '\0'}, used).ok());
}

TEST(Cubin, ImpossibleNumbersAreBounded) {
  Resources used;
  const std::string launch("\x04\x05\x0c\0\0\x01\0\0\x01\0\0\0\x01\0\0\0", 16);  // 256, 1, 1
  std::string file = cubin_file("run", {.registers = 40, .max_threads = 256});
  const size_t at = file.find(launch);
  ASSERT_NE(at, std::string::npos);
  file.replace(at + 4, 12, "\xff\xff\xff\x7f\xff\xff\xff\x7f\xff\xff\xff\x7f", 12);
  ASSERT_TRUE(read_resources(file, "run", {80, '\0'}, used).ok());
  EXPECT_EQ(used.max_threads, 1024);
  file.replace(at + 7, 1, "\x80", 1);
  ASSERT_TRUE(read_resources(file, "run", {80, '\0'}, used).ok());
  EXPECT_EQ(used.max_threads, 0);
  ASSERT_TRUE(read_resources(cubin_file("run", {.smem_bytes = INT_MIN}), "run", {90, 'a'}, used).ok());
  EXPECT_EQ(used.smem_bytes, (1 << 30) - 1024);
}

TEST(Cubin, ADamagedFileIsAnErrorOrNumbers) {
  SKIP_WITHOUT_NVRTC();
  const std::string cubin = compile("90a").cubin;
  Resources used;
  EXPECT_EQ(read_resources("", "entry", {90, 'a'}, used).code(), FOVEA_INTERNAL);
  Resources whole;
  ASSERT_TRUE(read_resources(cubin, "entry", {90, 'a'}, whole).ok());
  for (size_t cut = 0; cut < cubin.size(); cut += 37) {
    const bool read = read_resources(cubin.substr(0, cut), "entry", {90, 'a'}, used).ok();
    EXPECT_TRUE(!read || used.registers == whole.registers) << cut;  // what is behind the sections may be missing
    EXPECT_FALSE(read && cut < cubin.size() / 2) << cut;
  }
  // Whatever a byte becomes, nothing outside the file is read: sanitizers watch.
  for (size_t at = 0; at < cubin.size(); at += at < 64 ? 1 : 29) {
    std::string damaged = cubin;
    damaged[at] = static_cast<char>(damaged[at] ^ 0xff);
    static_cast<void>(read_resources(damaged, "entry", {90, 'a'}, used));
  }
}

}  // namespace
}  // namespace fovea::cuda
