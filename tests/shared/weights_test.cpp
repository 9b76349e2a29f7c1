// SPDX-License-Identifier: Apache-2.0
#include "shared/weights/weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <string>

#include "support/weight_fixtures.h"

namespace fovea {
namespace {

Dtype dtype_named(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const DtypeRow& row : kDtypes) {
    if (name == row.name) return static_cast<Dtype>(row.value);
  }
  return Dtype::none;
}

// Every block type, to the bit; one NaN is as good as another.
TEST(Weights, AreThoseOfThePackageGguf) {
  std::vector<Dtype> seen;
  for (const test::WeightFixture& f : test::weight_fixtures(FOVEA_SOURCE_DIR)) {
    SCOPED_TRACE(f.name);
    const Dtype type = dtype_named(f.name);
    ASSERT_EQ(dtype_block(type), static_cast<int>(f.weights));
    ASSERT_EQ(dtype_block_bytes(type), static_cast<int>(f.bytes));
    seen.push_back(type);
    for (size_t i = 0; i < f.values.size(); ++i) {
      const float have = weight_at(f.data.data(), type, static_cast<i64_t>(i)), want = f.values[i];
      if (std::isnan(want) && std::isnan(have)) continue;
      ASSERT_EQ(bits_of_float(have), bits_of_float(want))
          << "block " << i / f.weights << " weight " << i % f.weights << ": " << have << ", wanted " << want;
    }
  }
  for (const DtypeRow& row : kDtypes) {
    EXPECT_EQ(row.block > 1, std::count(seen.begin(), seen.end(), static_cast<Dtype>(row.value)) == 1) << row.name;
  }
}

}  // namespace
}  // namespace fovea
