// SPDX-License-Identifier: Apache-2.0
// Inputs that once broke a target, and damaged versions of them and of nothing, in every build.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "fuzz/target.h"

namespace fovea::fuzz {
namespace {

std::vector<uint8_t> read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A copy of exactly the size, so that a sanitizer sees any read past its end.
void run(const Target& target, const std::vector<uint8_t>& input) {
  const std::vector<uint8_t> exact(input.begin(), input.end());
  target.run(exact);
}

class EveryTarget : public testing::TestWithParam<size_t> {
 protected:
  const Target& target() const { return targets()[GetParam()]; }
};
INSTANTIATE_TEST_SUITE_P(Fuzz, EveryTarget, testing::Range(size_t{0}, targets().size()),
                         [](const auto& p) { return std::string(targets()[p.param].name); });

TEST_P(EveryTarget, WhatWasFoundStaysFixed) {
  const std::filesystem::path folder = std::filesystem::path(FOVEA_FINDINGS) / target().name;
  if (!std::filesystem::is_directory(folder)) GTEST_SKIP() << "nothing was found";
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    SCOPED_TRACE(file.path().filename());
    run(target(), read(file.path()));
  }
}

TEST_P(EveryTarget, RandomInputs) {
  std::mt19937 rng(GetParam() + 1);
  std::vector<uint8_t> input;
  for (int round = 0; round < 300; ++round) {
    input.resize(rng() % 400);
    for (uint8_t& byte : input) byte = static_cast<uint8_t>(round % 2 != 0 ? rng() : rng() % 8);
    run(target(), input);
    if (target().mutate == nullptr) continue;
    std::vector<uint8_t> changed = input;
    changed.resize(target().mutate(changed.data(), input.size(), input.size(), rng()));
    run(target(), changed);
  }
}

}  // namespace
}  // namespace fovea::fuzz
