// SPDX-License-Identifier: Apache-2.0
// What docs/kv-formats.md says of rotations, grids, planes, scales and records, beside an fp64 model of the same rules.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <set>
#include <sstream>

#include "oracle/grid64.h"
#include "shared/kv/encode.h"
#include "shared/kv/planes.h"
#include "shared/kv/record.h"
#include "shared/kv/rotation.h"
#include "support/random.h"

namespace fovea {
namespace {

constexpr Grid kAll[] = {Grid::i8, Grid::q6, Grid::q5, Grid::q4, Grid::q3, Grid::q2};

std::vector<double> in_doubles(const std::vector<float>& x) {
  return {x.begin(), x.end()};
}

struct Stored {
  std::vector<u8_t> codes;
  float scale = 0;
  bool finite = true;
};
Stored stored(Grid g, std::vector<float> x) {
  const int d = static_cast<int>(x.size());
  rotate(*find_rotation(d), x.data());
  Stored s{std::vector<u8_t>(x.size()), 0, true};
  s.scale = encode_vector(g, x.data(), d, s.codes.data(), s.finite);
  return s;
}

// scale R^T level, by the library's own steps.
std::vector<float> restored(Grid g, const Stored& s) {
  const int d = static_cast<int>(s.codes.size());
  std::vector<float> x(s.codes.size());
  for (int i = 0; i < d; ++i) x[static_cast<size_t>(i)] = grid_value(g, s.codes[static_cast<size_t>(i)]);
  rotate_back(*find_rotation(d), x.data());
  for (float& v : x) v *= s.scale / std::sqrt(static_cast<float>(d));
  return x;
}

double squared_error(const std::vector<float>& got, const std::vector<float>& want) {
  double error = 0, all = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    error += std::pow(double{got[i]} - double{want[i]}, 2);
    all += std::pow(double{want[i]}, 2);
  }
  return error / all;
}

std::vector<float> gaussian(test::Rng& rng, int d) {
  std::vector<float> x(static_cast<size_t>(d));
  for (float& v : x) v = static_cast<float>(rng.normal());
  return x;
}

TEST(KvRotation, IsTheOraclesForEveryHeadDim) {
  for (const Rotation& r : kRotations) {
    const std::vector<double> want = oracle::rotation(r.d);
    const double root = std::sqrt(static_cast<double>(r.d));
    const auto d = static_cast<size_t>(r.d);
    for (size_t column = 0; column < d; ++column) {
      std::vector<float> unit(d), back(d);
      unit[column] = back[column] = 1;
      rotate(r, unit.data());
      rotate_back(r, back.data());
      for (size_t row = 0; row < d; ++row) {
        ASSERT_NEAR(double{unit[row]}, root * want[row * d + column], 1e-9) << r.d;
        ASSERT_NEAR(double{back[row]}, root * want[column * d + row], 1e-9) << r.d;
      }
    }
    for (size_t i = 0; i < d; ++i) {
      for (size_t j = 0; j <= i; ++j) {
        const double product = std::inner_product(&want[i * d], &want[i * d] + d, &want[j * d], 0.0);
        ASSERT_NEAR(product, i == j, 1e-9) << r.d;
      }
    }
  }
  EXPECT_EQ(find_rotation(72), nullptr);
  EXPECT_EQ(find_rotation(0), nullptr);
}

// No constant, alternating or other row of H meets the signs: it would stay in a few large elements.
TEST(KvRotation, SignsMeetNoRowOfTheMatrix) {
  for (const Rotation& r : kRotations) {
    std::vector<float> ones(static_cast<size_t>(r.d), 1.0f);
    rotate(r, ones.data());
    for (const float v : ones) EXPECT_LE(std::abs(v), 3 * std::sqrt(static_cast<float>(r.d))) << r.d;
  }
}

TEST(KvGrid, LevelsAreTheOraclesAndExactWhereProductsHoldThem) {
  for (const Grid g : kAll) {
    const std::vector<double> want = oracle::levels(grid_row(g).name);
    ASSERT_EQ(want.size(), size_t{1} << grid_row(g).bits);
    for (u32_t code = 0; code < want.size(); ++code) {
      if (g == Grid::i8 && code == 128) continue;
      const float level = grid_value(g, code);
      EXPECT_EQ(double{level}, want[code]);
      EXPECT_EQ(f16_to_f32(f32_to_f16(level)), level);
      EXPECT_EQ(bf16_to_f32(f32_to_bf16(level)), level);
      if (grid_has_signs(g)) {
        EXPECT_EQ(e4m3_to_f32(f32_to_e4m3(level)), level);
      }
    }
  }
}

TEST(KvGrid, CodesAreTheNearest) {
  test::Rng rng = test::test_rng();
  for (const Grid g : kAll) {
    const std::vector<double> levels = oracle::levels(grid_row(g).name);
    for (int repeat = 0; repeat < 20000; ++repeat) {
      const auto x = static_cast<float>(rng.normal() * (g == Grid::i8   ? 50
                                                        : g == Grid::q6 ? 14
                                                        : g == Grid::q5 ? 7
                                                                        : 1.3));
      const u32_t code = grid_code(g, x);
      ASSERT_LT(code, levels.size());
      for (const double level : levels) {
        // x + levels / 2 rounds once in q6 and q5
        ASSERT_LE(std::abs(levels[code] - double{x}), std::abs(level - double{x}) + 4e-6)
            << grid_row(g).name << ' ' << x;
      }
    }
    EXPECT_EQ(grid_value(g, grid_code(g, 1e30f)), -grid_value(g, grid_code(g, -1e30f)));
    EXPECT_EQ(grid_code(g, 0.0f), grid_code(g, -0.0f));
    EXPECT_GE(grid_value(g, grid_code(g, -0.0f)), 0);
  }
}

TEST(KvPlanes, EveryBitHasAPlaceOfItsOwn) {
  for (const Grid g : kAll) {
    for (const Rotation& r : kRotations) {
      std::set<std::pair<int, int>> places;
      for (int i = 0; i < r.d; ++i) {
        for (int bit = 0; bit < grid_row(g).bits; ++bit) {
          const BitPlace at = bit_place(g, i, bit);
          ASSERT_LT(at.bit, 8 * plane_row_bytes(grid_planes(g).bits[at.plane], r.d)) << grid_row(g).name << ' ' << r.d;
          ASSERT_TRUE(places.insert({at.plane, at.bit}).second) << grid_row(g).name << ' ' << r.d;
        }
      }
    }
  }
}

TEST(KvPlanes, CodesComeBackAndNothingElseIsWritten) {
  test::Rng rng = test::test_rng();
  for (const Grid g : kAll) {
    for (const Rotation& r : kRotations) {
      std::vector<u8_t> codes(static_cast<size_t>(r.d));
      for (u8_t& c : codes) c = static_cast<u8_t>(rng.bits() & ((1u << grid_row(g).bits) - 1));
      u8_t first[kMostRotatedDim + 1], second[kMostRotatedDim + 1];
      std::memset(first, 0xA5, sizeof first);
      std::memset(second, 0xA5, sizeof second);
      const PlaneRows rows{{first, second}};
      pack_codes(g, codes.data(), r.d, rows);
      for (int i = 0; i < r.d; ++i) ASSERT_EQ(code_at(g, rows, i), codes[static_cast<size_t>(i)]);
      EXPECT_EQ(first[plane_row_bytes(grid_planes(g).bits[0], r.d)], 0xA5);
      EXPECT_EQ(second[plane_row_bytes(grid_planes(g).bits[1], r.d)], 0xA5);
    }
  }
}

// The steps by which kernels unpack words are as few as the places allow.
TEST(KvPlanes, WordsUnpackAsKernelsDo) {
  test::Rng rng = test::test_rng();
  std::vector<u8_t> codes(32);
  u8_t low[32], high[32];
  const auto word = [](const u8_t* p, int i) {
    u32_t w;
    std::memcpy(&w, p + 4 * i, 4);
    return w;
  };
  const auto packed = [&](Grid g) {
    for (u8_t& c : codes) c = static_cast<u8_t>(rng.bits() & ((1u << grid_row(g).bits) - 1));
    pack_codes(g, codes.data(), 32, {{low, high}});
  };
  packed(Grid::q4);
  for (int i = 0; i < 32; ++i) {
    const u32_t w = word(low, i / 8), moved = i % 8 < 4 ? w : w << 4;
    EXPECT_EQ(w >> 4 * (i % 8) & 7u, codes[static_cast<size_t>(i)] & 7u);
    EXPECT_EQ(moved >> (8 * (i % 4) + 7) & 1u, codes[static_cast<size_t>(i)] >> 3);
  }
  packed(Grid::q3);
  for (int i = 0; i < 32; ++i) {
    const u32_t nibbles = word(low, i / 16) >> 2 * (i % 16 / 8) & 0x33333333u;
    EXPECT_EQ(nibbles >> 4 * (i % 8) & 0xFu, codes[static_cast<size_t>(i)] & 3u);
    EXPECT_EQ(word(high, 0) << i / 4 >> (8 * (i % 4) + 7) & 1u, codes[static_cast<size_t>(i)] >> 2);
  }
  packed(Grid::q2);
  for (int i = 0; i < 32; ++i) {
    const u32_t nibbles = word(low, i / 16) >> 2 * (i % 16 / 8) & 0x33333333u;
    EXPECT_EQ(nibbles >> 4 * (i % 8) & 0xFu, codes[static_cast<size_t>(i)]);
  }
  for (const Grid g : {Grid::q6, Grid::q5}) {
    packed(g);
    for (int pair = 0; pair < 16; ++pair) {  // codes i and i + 4 from one word, in its halves
      const int i = pair / 4 * 8 + pair % 4;
      const u32_t nibbles = word(low, i / 8) >> 4 * (i % 8) & 0x000F000Fu;
      const u32_t top = g == Grid::q6 ? word(high, i / 16) >> 2 * (i % 8 + 4 * (i % 16 / 8)) & 0x00030003u
                                      : word(high, 0) >> (i % 8 + 4 * (i / 8)) & 0x00010001u;
      EXPECT_EQ(nibbles | top << 4,
                u32_t{codes[static_cast<size_t>(i)]} | u32_t{codes[static_cast<size_t>(i + 4)]} << 16);
    }
  }
}

struct GridError {
  Grid grid;
  double most;  // mean squared error over power of Gaussian vectors of 128
};
constexpr GridError kErrors[] = {{Grid::q2, 1.15 * .1142},  {Grid::q3, 1.04 * .0319},   {Grid::q4, 1.05 * .00775},
                                 {Grid::q5, 1.06 * .00254}, {Grid::q6, 1.10 * .000645}, {Grid::i8, 1.10 * 4.1e-5}};

// FOVEA_TEST_VECTORS=1000000 for the published figures.
TEST(KvEncode, ErrorsOfGaussianVectors) {
  const int64_t vectors = test::env_number("FOVEA_TEST_VECTORS", static_cast<int64_t>(2000 * test::effort()));
  for (const GridError& row : kErrors) {
    test::Rng rng = test::test_rng();
    double sum = 0;
    for (int64_t i = 0; i < vectors; ++i) {
      const std::vector<float> x = gaussian(rng, 128);
      sum += squared_error(restored(row.grid, stored(row.grid, x)), x);
    }
    const double mean = sum / static_cast<double>(vectors);
    std::ostringstream text;
    text << mean;
    RecordProperty(grid_row(row.grid).name, text.str());
    EXPECT_LE(mean, row.most) << grid_row(row.grid).name;
  }
}

// Rounding alone tells the two apart.
TEST(KvEncode, IsTheRuleInF64) {
  for (const int d : {48, 64, 112, 128, 256}) {
    const std::vector<double> r = oracle::rotation(d);
    for (const Grid g : kAll) {
      test::Rng rng = test::test_rng();
      double ours = 0, oracles = 0;
      const int vectors = std::max(4, static_cast<int>(40 * test::effort()));
      for (int i = 0; i < vectors; ++i) {
        const std::vector<float> x = gaussian(rng, d);
        const Stored s = stored(g, x);
        const oracle::Encoded want = oracle::encode(grid_row(g).name, r, in_doubles(x));
        int differ = 0;
        for (size_t j = 0; j < x.size(); ++j) differ += s.codes[j] != want.codes[j];
        if (differ == 0) {
          EXPECT_NEAR(double{s.scale}, want.scale, 2e-6 * want.scale);
        }
        EXPECT_NEAR(double{s.scale}, want.scale, 0.4 * want.scale);  // two steps may be equally good
        std::vector<float> by_oracle;
        for (const double v : oracle::decode(grid_row(g).name, r, want)) by_oracle.push_back(static_cast<float>(v));
        ours += squared_error(restored(g, s), x);
        oracles += squared_error(by_oracle, x);
      }
      EXPECT_NEAR(ours, oracles, 0.01 * oracles) << grid_row(g).name << ' ' << d;
    }
  }
}

// Vectors that one scale without a rotation serves badly.
TEST(KvEncode, StructuredVectorsAreNoWorseThanTwiceAGaussian) {
  test::Rng rng = test::test_rng();
  for (const int d : {64, 80, 96, 112, 128, 192, 256}) {
    const auto n = static_cast<size_t>(d);
    std::vector<std::vector<float>> all;
    all.emplace_back(n, 0.7f);  // constant
    all.push_back(gaussian(rng, d));
    for (float& v : all.back()) v += 3;
    all.emplace_back(n, 1.0f);
    for (size_t i = n / 2; i < n; ++i) all.back()[i] = -1;
    all.emplace_back(n);
    for (size_t i = 0; i < n; ++i) all.back()[i] = static_cast<float>(std::sin(6.283 * static_cast<double>(i) / d));
    all.emplace_back(n);
    all.back()[n / 3] = 1;  // one-hot
    all.push_back(gaussian(rng, d));
    all.back()[2] *= 20, all.back()[n - 3] *= 20;  // two outlier channels
    for (const Grid g : kAll) {
      double of_gaussian = 0;
      for (int i = 0; i < 100; ++i) {
        const std::vector<float> x = gaussian(rng, d);
        of_gaussian += squared_error(restored(g, stored(g, x)), x) / 100;
      }
      for (size_t i = 0; i < all.size(); ++i) {
        EXPECT_LE(squared_error(restored(g, stored(g, all[i])), all[i]), 2 * of_gaussian)
            << grid_row(g).name << ", d " << d << ", vector " << i;
      }
    }
  }
}

TEST(KvEncode, ProductsWithTheVectorItselfAreUnbiased) {
  test::Rng rng = test::test_rng();
  for (const Grid g : kAll) {
    for (int i = 0; i < 50; ++i) {
      const std::vector<float> x = gaussian(rng, 128), got = restored(g, stored(g, x));
      const double own = std::inner_product(x.begin(), x.end(), x.begin(), 0.0);
      EXPECT_NEAR(std::inner_product(x.begin(), x.end(), got.begin(), 0.0), own, 1e-5 * own);
    }
  }
}

TEST(KvEncode, ZerosHugeAndTinyVectors) {
  test::Rng rng = test::test_rng();
  for (const Grid g : kAll) {
    const Stored zero = stored(g, std::vector<float>(64, -0.0f));
    EXPECT_EQ(zero.scale, 0);
    EXPECT_TRUE(zero.finite);
    EXPECT_EQ(zero.codes, std::vector<u8_t>(64));
    const std::vector<float> x = gaussian(rng, 64);
    const Stored one = stored(g, x);
    for (const float power : {0x1p+100f, 0x1p-100f, 0x1p14f}) {  // the same codes, the same scale but for its exponent
      std::vector<float> y = x;
      for (float& v : y) v *= power;
      const Stored s = stored(g, y);
      EXPECT_EQ(s.codes, one.codes);
      EXPECT_EQ(s.scale, one.scale * power);
    }
    std::vector<float> tiny = x;
    for (float& v : tiny) v *= 1e-40f;  // subnormal: what is left of it
    const Stored s = stored(g, tiny);
    EXPECT_TRUE(s.finite);
    EXPECT_LT(squared_error(restored(g, s), tiny), 0.2);
    EXPECT_EQ(stored_scale(s.scale, 1), 0);
    std::vector<float> long_one(64, 1e4f / 8);  // of norm 1e4
    EXPECT_LT(squared_error(restored(g, stored(g, long_one)), long_one), 0.2);
  }
}

TEST(KvEncode, VectorsThatAreNotFiniteAreCountedAndStoredAsZeros) {
  test::Rng rng = test::test_rng();
  for (const Grid g : kAll) {
    for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<float> x = gaussian(rng, 96);
      x[41] = bad;
      const Stored s = stored(g, x);
      EXPECT_FALSE(s.finite);
      EXPECT_EQ(s.scale, 0);
      EXPECT_EQ(s.codes, std::vector<u8_t>(96));
    }
  }
}

TEST(KvEncode, StoredScales) {
  EXPECT_EQ(stored_scale(1.0f, 1.0f), 0x3C00);
  EXPECT_EQ(stored_scale(1.0f, 0.5f), 0x4000);
  EXPECT_EQ(stored_scale(0.0f, 0.5f), 0);
  EXPECT_EQ(stored_scale(1e30f, 1.0f), 0x7BFF);  // cut off, not infinite
  EXPECT_EQ(stored_scale_f32(1e30f, 0x1p-60f), std::numeric_limits<float>::max());
  EXPECT_EQ(stored_scale_f32(3.0f, 0.5f), 6.0f);
}

// Bytes that every backend gives. Vectors whose elements are whole numbers: no library function has a part in them.
uint64_t digest(Grid g, int d) {
  uint64_t hash = 0xCBF29CE484222325u, state = static_cast<uint64_t>(d);
  const auto add = [&](u32_t byte) { hash = (hash ^ byte) * 0x100000001B3u; };
  std::vector<float> x(static_cast<size_t>(d));
  for (int vector = 0; vector < 50; ++vector) {
    for (float& v : x) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      v = static_cast<float>(static_cast<int64_t>(state >> 44) - (1 << 19)) * 0x1p-17f;
    }
    const Stored s = stored(g, x);
    u8_t low[kMostRotatedDim], high[kMostRotatedDim];
    pack_codes(g, s.codes.data(), d, {{low, high}});
    for (int i = 0; i < plane_row_bytes(grid_planes(g).bits[0], d); ++i) add(low[i]);
    for (int i = 0; i < plane_row_bytes(grid_planes(g).bits[1], d); ++i) add(high[i]);
    for (int shift = 0; shift < 32; shift += 8) add(bits_of_float(s.scale) >> shift & 255u);
  }
  return hash;
}

struct Golden {
  Grid grid;
  int d;
  uint64_t digest;
};
constexpr Golden kGolden[] = {
    {Grid::i8, 128, 0x9F5BCFBB57B8FC39U}, {Grid::q6, 128, 0x8A5D5D4F04FC8700U}, {Grid::q5, 128, 0x6A7569BFF78AE512U},
    {Grid::q4, 128, 0x77C840AFF9F5D05EU}, {Grid::q3, 128, 0xE553867CB5CA7065U}, {Grid::q2, 128, 0xF3FCED091C2FD75AU},
    {Grid::q5, 112, 0x80DE8C3C2B886C98U}, {Grid::q3, 80, 0xD4688B8CEC748D50U},  {Grid::q4, 96, 0xE0461409E248FBF0U},
};
TEST(KvEncode, GoldenBytes) {
  for (const Golden& row : kGolden) {
    EXPECT_EQ(digest(row.grid, row.d), row.digest)
        << grid_row(row.grid).name << ' ' << row.d << std::hex << " 0x" << digest(row.grid, row.d);
  }
}

// K + V of a token and head in pages of 64 and more, with scales of 16 bits: the figures of docs/kv-formats.md.
TEST(KvRecord, BytesOfATokenAndHead) {
  const auto bytes = [](Grid k, Grid v, int d, int page) {
    return record_layout(page, record_side(k, d, 2), record_side(v, d, 2), 0).bytes;
  };
  struct Row {
    Grid k, v;
    int bytes[3];  // d 64, 128, 256
  };
  constexpr Row kRows[] = {{Grid::i8, Grid::q4, {100, 196, 388}}, {Grid::q6, Grid::q4, {84, 164, 324}},
                           {Grid::q4, Grid::q4, {68, 132, 260}},  {Grid::q3, Grid::q4, {60, 116, 228}},
                           {Grid::q3, Grid::q3, {52, 100, 196}},  {Grid::q2, Grid::q2, {36, 68, 132}}};
  for (const Row& row : kRows) {
    for (int i = 0; i < 3; ++i) {
      for (const int page : {64, 128}) EXPECT_EQ(bytes(row.k, row.v, 64 << i, page), page * row.bytes[i]);
    }
  }
  EXPECT_EQ(bytes(Grid::q4, Grid::q4, 128, 64), 8448);
}

TEST(KvRecord, SectionsDoNotMeetAndAreAligned) {
  for (const int page : {16, 32, 64, 128}) {
    for (const Grid k : kAll) {
      for (const Grid v : kAll) {
        for (const Rotation& r : kRotations) {
          for (const int rope : {0, 128}) {
            const RecordSide ks = record_side(k, r.d, 2), vs = record_side(v, r.d, 4);
            const RecordLayout l = record_layout(page, ks, vs, rope);
            std::vector<std::pair<i64_t, i64_t>> parts = {
                {l.k_plane[0], ks.row_bytes[0]}, {l.v_plane[0], vs.row_bytes[0]}, {l.k_scale, 2}, {l.v_scale, 4}};
            if (ks.row_bytes[1]) parts.emplace_back(l.k_plane[1], ks.row_bytes[1]);
            if (vs.row_bytes[1]) parts.emplace_back(l.v_plane[1], vs.row_bytes[1]);
            if (rope) parts.emplace_back(l.k_rope, rope);
            std::sort(parts.begin(), parts.end());
            EXPECT_EQ(parts[0].first, 0);
            for (size_t i = 0; i < parts.size(); ++i) {
              const i64_t end = i + 1 < parts.size() ? parts[i + 1].first : l.bytes;
              EXPECT_LE(parts[i].first + page * parts[i].second, end);
            }
            for (const i64_t start : {l.k_plane[0], l.v_plane[0], l.k_scale, l.v_scale, l.k_rope}) {
              EXPECT_EQ(start % (page >= 64 ? 128 : 16), 0);
            }
            for (const i64_t start : {l.k_plane[1], l.v_plane[1]}) EXPECT_EQ(start % 16, 0);
            EXPECT_EQ(l.bytes % 128, 0);
          }
        }
      }
    }
  }
  EXPECT_FALSE(is_record_page(48));
  EXPECT_TRUE(is_record_page(16));
}

}  // namespace
}  // namespace fovea
