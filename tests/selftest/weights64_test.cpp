// SPDX-License-Identifier: Apache-2.0
#include "oracle/weights64.h"

#include <gtest/gtest.h>

#include <cmath>

#include "fovea/fovea.h"
#include "support/weight_fixtures.h"

namespace {

constexpr struct {
  const char* name;
  int32_t dtype;
} kTypes[] = {
#define FOVEA_DTYPE(name, NAME, value, block, bytes) {#NAME, value},
#include "fovea/dtypes.def"
#undef FOVEA_DTYPE
};

// The oracle's own decoders give the values of the package `gguf`, rounded to f32.
TEST(Weights64, AreThoseOfThePackageGguf) {
  int types = 0;
  for (const fovea::test::WeightFixture& f : fovea::test::weight_fixtures(FOVEA_SOURCE_DIR)) {
    SCOPED_TRACE(f.name);
    for (const auto& type : kTypes) {
      if (type.name != f.name) continue;
      ++types;
      const std::vector<double> have =
          fovea::oracle::weights64(type.dtype, f.data.data(), static_cast<int64_t>(f.values.size()));
      for (size_t i = 0; i < have.size(); ++i) {
        const auto want = f.values[i];
        ASSERT_TRUE(static_cast<float>(have[i]) == want || (std::isnan(have[i]) && std::isnan(want)))
            << "weight " << i << ": " << have[i] << ", wanted " << want;
      }
    }
  }
  EXPECT_EQ(types, 12);
}

}  // namespace
