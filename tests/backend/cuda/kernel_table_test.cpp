// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/kernel_table.h"

#include <gtest/gtest.h>

#include "plan/catalogue.h"

namespace fovea::cuda {
namespace {

constexpr CudaArch kHopper = {90, 'a'}, kAmpere = {80, '\0'};
using Names = std::vector<std::string>;

BuiltKernel built(const std::string& name, int local) {
  BuiltKernel kernel;
  kernel.name = name;
  kernel.bytes = 5000;
  kernel.spill_bytes = 4;
  kernel.resources = {.registers = 40, .local_bytes = local, .smem_bytes = 16, .max_threads = 128};
  return kernel;
}

class Table : public testing::Test {
 protected:
  Table() {
    table.replace(kHopper, {13, 0}, {built("a<d=1, e=2>", 0), built("b", 8)});
    table.replace(kAmpere, {13, 0}, {built("b", 0)});
  }
  KernelTable table;
};

TEST_F(Table, RoundTrip) {
  const std::string text = table.text();
  EXPECT_EQ(text,
            "arch\tkernel\tregisters\tspills\tlocal\tshared\tthreads\tbytes\tnvrtc\n"
            "80\tb\t40\t4\t0\t16\t128\t5000\t13.0\n"
            "90a\ta<d=1, e=2>\t40\t4\t0\t16\t128\t5000\t13.0\n"
            "90a\tb\t40\t4\t8\t16\t128\t5000\t13.0\n");
  KernelTable again;
  ASSERT_TRUE(KernelTable::parse(text, again).ok());
  EXPECT_EQ(again.text(), text);
}

TEST_F(Table, ANewSpillIsNamed) {
  EXPECT_EQ(table.new_spills(kHopper, {13, 0}, {built("a<d=1, e=2>", 0), built("b", 8), built("c", 8)}), Names());
  EXPECT_EQ(table.new_spills(kHopper, {13, 0}, {built("b", 4)}), Names()) << "fewer is fine";
  EXPECT_EQ(table.new_spills(kHopper, {13, 0}, {built("b", 9)}),
            Names{"b for sm_90a keeps 9 bytes of a thread in local memory: the table has 8"});
  EXPECT_EQ(table.new_spills(kAmpere, {13, 0}, {built("b", 8)}),
            Names{"b for sm_80 keeps 8 bytes of a thread in local memory: the table has 0"});
  EXPECT_EQ(table.new_spills(kHopper, {13, 1}, {built("b", 9)}), Names()) << "another compiler";
}

TEST_F(Table, ReplacingOneArchitectureLeavesTheOthers) {
  table.replace(kHopper, {13, 0}, {built("c", 0)});
  EXPECT_EQ(table.new_spills(kHopper, {13, 0}, {built("b", 99)}), Names()) << "b is gone";
  EXPECT_EQ(table.new_spills(kAmpere, {13, 0}, {built("b", 1)}).size(), 1u);
}

TEST_F(Table, OtherNamesAreNamed) {
  EXPECT_EQ(table.other_names(kAmpere, {{.file = "f", .entry = "c"}}),
            (Names{"c for sm_80 is not in the table", "b for sm_80 is in the table, but no kernel of the catalogue"}));
  EXPECT_EQ(table.missing_names(kAmpere, {{.file = "f", .entry = "c"}}), Names{"c for sm_80 is not in the table"});
  EXPECT_EQ(table.missing_names(kAmpere, {}), Names());
  EXPECT_EQ(table.other_names(kAmpere, {{.file = "f", .entry = "b"}}), Names());
}

TEST_F(Table, WhatIsNoTableIsRefused) {
  const auto problem = [](const std::string& text) {
    KernelTable out;
    return KernelTable::parse(text, out).message();
  };
  const std::string head = "arch\tkernel\tregisters\tspills\tlocal\tshared\tthreads\tbytes\tnvrtc\n";
  EXPECT_EQ(problem("hello"), "table is line 1: is no row of a table of kernels");
  EXPECT_EQ(problem(head + "80\tb\t40\t4\t0\t16\t128\t5000\t13.0\n80\tb\t40\n"),
            "table is line 3: is no row of a table of kernels");
  EXPECT_EQ(problem(head + "80\tb\t40\t0\tx\t16\t128\t5000\t13.0\n"),
            "table is line 2: is no row of a table of kernels");
}

TEST(Catalogue, ASampleHasOneOfEachFileAndEntry) {
  const KernelRequest a{.file = "x", .entry = "a", .constants = {{"n", 1}}},
      b{.file = "x", .entry = "a", .constants = {{"n", 2}}};
  const KernelRequest c{.file = "x", .entry = "c"}, d{.file = "y", .entry = "a"};
  EXPECT_EQ(sample({a, b, c, d, b}), (std::vector<KernelRequest>{a, c, d}));
}

}  // namespace
}  // namespace fovea::cuda
