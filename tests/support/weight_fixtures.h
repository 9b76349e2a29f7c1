// SPDX-License-Identifier: Apache-2.0
// tests/fixtures/weights.bin, which tools/make_weight_fixtures.py wrote: blocks with their values by the package
// `gguf`.
#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace fovea::test {

struct WeightFixture {
  std::string name;  // "Q4_K"
  uint32_t blocks = 0;
  uint32_t weights = 0;  // of a block
  uint32_t bytes = 0;    // of a block
  std::vector<unsigned char> data;
  std::vector<float> values;  // [blocks, weights]
};

inline std::vector<WeightFixture> weight_fixtures(const std::string& source_dir) {
  std::ifstream file(source_dir + "/tests/fixtures/weights.bin", std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  size_t at = 0;
  const auto take = [&](void* to, size_t bytes) {
    if (bytes > all.size() - at) throw std::runtime_error("tests/fixtures/weights.bin ends early");
    std::memcpy(to, all.data() + at, bytes);
    at += bytes;
  };
  std::vector<WeightFixture> fixtures;
  while (at < all.size()) {
    WeightFixture f;
    char name[9] = {};
    take(name, 8);
    f.name = name;
    take(&f.blocks, 4);
    take(&f.weights, 4);
    take(&f.bytes, 4);
    f.data.resize(size_t{f.blocks} * f.bytes);
    f.values.resize(size_t{f.blocks} * f.weights);
    take(f.data.data(), f.data.size());
    take(f.values.data(), f.values.size() * sizeof(float));
    fixtures.push_back(std::move(f));
  }
  return fixtures;
}

}  // namespace fovea::test
