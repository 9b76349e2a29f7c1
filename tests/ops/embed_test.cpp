// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>
#include <numeric>

#include "fovea/fovea.hpp"
#include "ops/weight_box.h"
#include "oracle/numbers.h"
#include "support/backends.h"
#include "support/check.h"
#include "support/tensors.h"
#include "support/weight_fixtures.h"

namespace {

using namespace fovea::test;
using fovea::EmbedParams;
using fovea::Result;

// scale * weight in f32, then the output's rounding: exact.
std::vector<double> expected(const std::vector<double>& table, const std::vector<int64_t>& ids, int64_t n, float scale,
                             int32_t out) {
  std::vector<double> want;
  for (const int64_t id : ids) {
    for (int64_t i = 0; i < n; ++i) {
      const double weight = fovea::oracle::round_to(FOVEA_F32, table[static_cast<size_t>(id * n + i)]);
      const double scaled = fovea::oracle::round_to(FOVEA_F32, weight * static_cast<double>(scale));
      want.push_back(fovea::oracle::round_to(out, scaled));
    }
  }
  return want;
}

TEST(Embed, RowsOfEveryTypeToTheBit) {
  for (const Backend& b : backends()) {
    SCOPED_TRACE(b.name);
    Rng rng = test_rng();
    for (const int32_t type : kWeightDtypes) {
      for (const int32_t out_type : kFloatDtypes) {
        const int64_t block = block_of(type);
        for (const int64_t n : {is_block(type) ? block : int64_t{32}, (rng.integer(1, 300) + block) / block * block}) {
          SCOPED_TRACE(::testing::Message() << fovea_dtype_name(type) << " n " << n << ' ' << seed_note());
          constexpr int64_t kVocab = 37;
          const WeightBox table(rng, type, kVocab, n, rng.pick({0, 1}) * block, rng.pick({Place::begin, Place::end}));
          std::vector<int64_t> ids;
          for (int i = 0; i < 100; ++i) ids.push_back(rng.integer(0, kVocab - 1));
          const TensorBox id_box = indices(ids, rng.pick({FOVEA_I32, FOVEA_I64}), {}, {.lead = rng.integer(0, 2)});
          TensorBox out(out_type, {100, n}, random_layout(rng, 2));
          const float scale = rng.pick({1.0f, 0.3f, -24.0f});
          const Result result =
              run(b.context, EmbedParams{.scale = scale, .ids = id_box, .table = table.view(), .out = out});
          ASSERT_TRUE(result) << result.message;
          EXPECT_TRUE(within(out, expected(table.values(), ids, n, scale, out_type), 0));
          EXPECT_TRUE(out.outside_untouched());
        }
      }
    }
  }
}

int32_t dtype_named(const std::string& name) {
  for (const BlockLayout& layout : kBlockLayouts) {
    std::string upper = fovea_dtype_name(layout.dtype);
    std::transform(upper.begin(), upper.end(), upper.begin(), [](unsigned char c) { return std::toupper(c); });
    if (upper == name) return layout.dtype;
  }
  return FOVEA_DTYPE_NONE;
}

// Infinite, subnormal and negative scales too: the values of the package `gguf`, from any byte on; any NaN is one.
TEST(Embed, BlocksOfTheFixturesToTheBit) {
  for (const Backend& b : backends()) {
    for (const WeightFixture& f : weight_fixtures(FOVEA_SOURCE_DIR)) {
      for (const int64_t lead : {0, 1}) {
        SCOPED_TRACE(::testing::Message() << b.name << ' ' << f.name << " lead " << lead);
        const int64_t rows = f.blocks, n = f.weights;
        const Guarded memory(f.data.size() + static_cast<size_t>(lead), Place::end);
        std::memcpy(memory.data() + lead, f.data.data(), f.data.size());
        std::vector<int64_t> ids(f.blocks);
        std::iota(ids.begin(), ids.end(), 0);
        TensorBox out(FOVEA_F32, {rows, n});
        const Result result =
            run(b.context, EmbedParams{.ids = indices(ids),
                                       .table = fovea::tensor(memory.data() + lead, dtype_named(f.name), {rows, n}),
                                       .out = out});
        ASSERT_TRUE(result) << result.message;
        const std::vector<std::byte> bits = out.bits();
        for (size_t i = 0; i < f.values.size(); ++i) {
          const auto* have = reinterpret_cast<const float*>(bits.data()) + i;
          if (std::isnan(f.values[i]) && std::isnan(*have)) continue;
          ASSERT_EQ(std::memcmp(have, &f.values[i], sizeof(float)), 0)
              << "weight " << i << " is " << *have << ", wanted " << f.values[i];
        }
      }
    }
  }
}

TEST(Embed, IdsOutOfRangeAreAnErrorBeforeAnythingIsWritten) {
  Rng rng = test_rng();
  const WeightBox table(rng, FOVEA_Q8_0, 10, 32);
  for (const int64_t bad : {int64_t{-1}, int64_t{10}, INT64_MAX, INT64_MIN}) {
    TensorBox out(FOVEA_F32, {3, 32});
    const TensorBox ids = indices({0, 9, bad}, FOVEA_I64);
    const Result result = run(backends()[0].context, EmbedParams{.ids = ids, .table = table.view(), .out = out});
    EXPECT_EQ(result.code, FOVEA_INVALID_VALUE);
    EXPECT_EQ(result.message, "ids[2] is " + std::to_string(bad) + ": must be in [0, 10)");
    EXPECT_TRUE(out.memory().all(kPoison));
  }
}

TEST(Embed, EmptySizes) {
  Rng rng = test_rng();
  const fovea::Context& context = backends()[0].context;
  const WeightBox table(rng, FOVEA_F32, 10, 5), none(rng, FOVEA_F32, 0, 5);
  TensorBox no_tokens(FOVEA_F32, {0, 5}), out(FOVEA_F32, {1, 5});
  EXPECT_TRUE(run(context, EmbedParams{.ids = indices({}), .table = table.view(), .out = no_tokens}));
  const Result result = run(context, EmbedParams{.ids = indices({0}), .table = none.view(), .out = out});
  EXPECT_EQ(result.message, "ids[0] is 0: must be in [0, 0)");
  TensorBox narrow(FOVEA_F32, {1, 0}), narrow_table(FOVEA_F32, {4, 0});
  EXPECT_TRUE(run(context, EmbedParams{.ids = indices({3}), .table = narrow_table, .out = narrow}));
}

TEST(Embed, ErrorsNameTheArgument) {
  Rng rng = test_rng();
  const fovea::Context& context = backends()[0].context;
  const WeightBox table(rng, FOVEA_F32, 10, 5);
  TensorBox out(FOVEA_F32, {2, 5});
  const TensorBox ids = indices({1, 2});
  EXPECT_EQ(run(context, EmbedParams{.scale = NAN, .ids = ids, .table = table.view(), .out = out}).message,
            "scale is nan: must be finite");
  EXPECT_EQ(run(context, EmbedParams{.ids = floats({1, 2}), .table = table.view(), .out = out}).message,
            "ids is f32: must be one of i32, i64");
  EXPECT_EQ(run(context, EmbedParams{.ids = indices({1}), .table = table.view(), .out = out}).message,
            "out.shape[0] is 2: must be 1 (ids.shape[0])");
}

// C06: a table of more than 2^31 elements.
TEST(Embed, TablesBeyondThirtyTwoBits) {
  constexpr int64_t kN = 1 << 14, kVocab = 1 << 18;
  const Sparse memory(kN * kVocab * 2);
  const fovea_tensor table = fovea::tensor(memory.data(), FOVEA_BF16, {kVocab, kN});
  fovea::oracle::encode(FOVEA_BF16, element(table, (kVocab - 1) * kN + 7), 2.5);
  TensorBox out(FOVEA_F32, {1, kN});
  ASSERT_TRUE(run(backends()[0].context, EmbedParams{.ids = indices({kVocab - 1}), .table = table, .out = out}));
  EXPECT_EQ(out.get(7), 2.5);
}

}  // namespace
