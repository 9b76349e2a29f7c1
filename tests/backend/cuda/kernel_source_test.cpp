// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/kernel_source.h"

#include <gtest/gtest.h>

#include <set>

#include "plan/catalogue.h"

namespace fovea::cuda {
namespace {

std::vector<std::string> names(const std::vector<const Source*>& files) {
  std::vector<std::string> out;
  for (const Source* file : files) out.emplace_back(file->name);
  return out;
}

TEST(Sources, AKernelReachesWhatItIncludesAndNothingElse) {
  std::vector<const Source*> files;
  ASSERT_TRUE(Sources::instance().reachable("backend/cuda/kernels/selftest.cuh", files).ok());
  EXPECT_EQ(names(files),
            (std::vector<std::string>{"backend/cuda/kernels/ptx/dependent.cuh", "backend/cuda/kernels/selftest.cuh",
                                      "shared/convert.h", "shared/params/selftest.h"}));
  ASSERT_TRUE(Sources::instance().reachable("shared/dtype.h", files).ok());
  EXPECT_EQ(names(files), (std::vector<std::string>{"fovea/dtypes.def", "shared/dtype.h"}));
}

TEST(Sources, IncludesOfEveryFormAreFound) {
  const EmbeddedFile table[] = {{"a.h", "#include \"b.h\"\r\n  #  include\t\"c.h\"\n#if 0\n#include \"d.h\"\n#endif"},
                                {"b.h", "#include \"a.h\"\n// #include \"e.h\"\n"},
                                {"c.h", "int c;"},
                                {"d.h", "#include <e.h>\n"},
                                {"e.h", ""}};
  const Sources sources(table, 5);
  std::vector<const Source*> files;
  ASSERT_TRUE(sources.reachable("a.h", files).ok());
  EXPECT_EQ(names(files), (std::vector<std::string>{"a.h", "b.h", "c.h", "d.h"}));
  const Status missing = sources.reachable("z.h", files);
  EXPECT_EQ(missing.code(), FOVEA_INTERNAL);
  EXPECT_EQ(missing.message(), "no kernel source named z.h");
}

struct KeyCase {
  std::string kernel = "#include \"shared/a.h\"\n";
  std::string a = "#include \"shared/b.h\"\n";
  std::string b = "int b;\n";
  std::string unrelated = "int c;\n";
  KernelRequest request{"kernel.cuh", "run", {{"dim", 64}, {"tile", 128}}, {90, 'a'}};

  Hash128 key() const {
    const EmbeddedFile table[] = {{"kernel.cuh", kernel.c_str()},
                                  {"other.cuh", kernel.c_str()},
                                  {"shared/a.h", a.c_str()},
                                  {"shared/b.h", b.c_str()},
                                  {"shared/c.h", unrelated.c_str()}};
    const Sources sources(table, 5);
    KernelSource source;
    EXPECT_TRUE(make_kernel_source(sources, request, source).ok());
    return source.key;
  }
};

TEST(KernelKey, CoversEveryInputOfTheCompiler) {
  const Hash128 base = KeyCase().key();
  EXPECT_EQ(KeyCase().key(), base);
  std::set<Hash128> seen{base};
  const auto changes = [&](const char* what, auto&& change) {
    KeyCase changed;
    change(changed);
    EXPECT_TRUE(seen.insert(changed.key()).second) << what;
  };
  changes("text of the kernel", [](KeyCase& c) { c.kernel += " "; });
  changes("text of an include", [](KeyCase& c) { c.a += " "; });
  changes("text of an include's include", [](KeyCase& c) { c.b += " "; });
  changes("one more include", [](KeyCase& c) { c.kernel += "#include \"shared/c.h\"\n"; });
  changes("value of a constant", [](KeyCase& c) { c.request.constants[0].value = 65; });
  changes("sign of a constant", [](KeyCase& c) { c.request.constants[0].value = -64; });
  changes("name of a constant", [](KeyCase& c) { c.request.constants[0].name = "dim_v"; });
  changes("order of constants", [](KeyCase& c) { std::swap(c.request.constants[0], c.request.constants[1]); });
  changes("no constants", [](KeyCase& c) { c.request.constants.clear(); });
  changes("entry", [](KeyCase& c) { c.request.entry = "run2"; });
  changes("file", [](KeyCase& c) { c.request.file = "other.cuh"; });
  changes("architecture", [](KeyCase& c) { c.request.arch = {100, 'a'}; });
  changes("suffix", [](KeyCase& c) { c.request.arch = {90, '\0'}; });
  KeyCase same;
  same.unrelated += " ";
  EXPECT_EQ(same.key(), base) << "a file that is not included must not matter";
}

TEST(KernelKey, RowsOfTheCatalogueDiffer) {
  for (const CudaArchRow& row : kCudaArchs) {
    std::set<Hash128> keys;
    const std::vector<KernelRequest> requests = catalogue(row.arch);
    EXPECT_FALSE(requests.empty());
    for (const KernelRequest& request : requests) {
      KernelSource source;
      ASSERT_TRUE(make_kernel_source(Sources::instance(), request, source).ok());
      EXPECT_TRUE(keys.insert(source.key).second) << source.name;
      EXPECT_EQ(request.arch, row.arch);
    }
  }
}

TEST(CudaArch, CodeRunsOnTheCardsItIsChosenFor) {
  const std::pair<int32_t, const char*> cases[] = {
      {70, "70"}, {72, "70"},  {75, "75"},    {80, "80"},    {86, "86"},    {87, "87"},    {88, "87"},
      {89, "89"}, {90, "90a"}, {100, "100f"}, {103, "100f"}, {110, "110f"}, {120, "120f"}, {121, "120f"}};
  for (const auto& [capability, arch] : cases) {
    const CudaArchRow* row = find_cuda_arch(capability);
    ASSERT_NE(row, nullptr) << capability;
    EXPECT_EQ(name(row->arch), arch) << capability;
    EXPECT_EQ(find_cuda_arch(std::string("sm_") + arch), row);
    EXPECT_EQ(find_cuda_arch(arch), row);
  }
  for (const int32_t capability : {0, 61, 91, 130}) EXPECT_EQ(find_cuda_arch(capability), nullptr) << capability;
  for (const char* text : {"", "sm_", "90", "90b", "sm_sm_80", "100"}) EXPECT_EQ(find_cuda_arch(text), nullptr) << text;
}

}  // namespace
}  // namespace fovea::cuda
