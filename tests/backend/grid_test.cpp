// SPDX-License-Identifier: Apache-2.0
// Rotations, codes, scales and levels by vectors are those of shared/kv, to the bit, on every instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/grid_test.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "backend/cpu/kernels/grid-inl.h"
#include "backend/cpu/kernels/isa.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::cpu {
namespace HWY_NAMESPACE {

void RotateByVectors(const Rotation& r, bool back, float* x) {
  back ? RotateVectorBack(r, x) : RotateVector(r, x);
}
float EncodeByVectors(Grid g, const float* y, int dims, u8_t* codes, bool* finite) {
  return EncodeVector(g, y, dims, codes, *finite);
}
void PackByVectors(Grid g, const u8_t* codes, int dims, const PlaneRows& to) {
  PackCodes(g, codes, dims, to);
}
void LevelsByVectors(Grid g, const PlaneRows& rows, int dims, float* to) {
  WithGrid(g, [&](auto grid) HWY_ATTR {
    const F32Tag d;
    for (int i = 0; i < dims; i += static_cast<int>(hn::Lanes(d))) {
      hn::StoreU(LoadLevels<decltype(grid)::value>(rows.plane[0], rows.plane[1], i), d, to + i);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "backend/every_isa.h"
#include "support/guarded.h"
#include "support/random.h"

namespace fovea::cpu {

HWY_EXPORT(RotateByVectors);
HWY_EXPORT(EncodeByVectors);
HWY_EXPORT(LevelsByVectors);
HWY_EXPORT(PackByVectors);

namespace {

constexpr Grid kAll[] = {Grid::i8, Grid::q6, Grid::q5, Grid::q4, Grid::q3, Grid::q2};

// Ordinary vectors, and those at whose ends arithmetic ends.
std::vector<std::vector<float>> vectors(test::Rng& rng, int d) {
  std::vector<std::vector<float>> all;
  for (const test::Values values : test::kAllValues) {
    const std::vector<double> drawn = test::draw(rng, values, 3, d);
    for (int i = 0; i < 3; ++i) {
      all.emplace_back();
      for (int j = 0; j < d; ++j) all.back().push_back(static_cast<float>(drawn[static_cast<size_t>(i * d + j)]));
    }
  }
  for (const float factor : {3e38f, 1e-30f, -1e-42f}) {
    all.push_back(all[0]);
    for (float& v : all.back()) v = factor * (v > 1 ? 1 : v);
  }
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    all.push_back(all[0]);
    all.back()[static_cast<size_t>(d / 3)] = bad;
  }
  return all;
}

std::vector<uint32_t> bits(const std::vector<float>& x) {
  std::vector<uint32_t> b(x.size());
  std::memcpy(b.data(), x.data(), 4 * x.size());
  return b;
}

TEST(GridVectors, RotationsHaveTheBitsOfTheScalarOnes) {
  test::Rng rng = test::test_rng();
  for (const Isa& isa : every_isa()) {
    for (const Rotation& r : kRotations) {
      for (std::vector<float> x : vectors(rng, r.d)) {
        for (const bool back : {false, true}) {
          std::vector<float> want = x, got = x;
          back ? rotate_back(r, want.data()) : rotate(r, want.data());
          FOVEA_CPU_KERNEL(isa, RotateByVectors)(r, back, got.data());
          for (size_t i = 0; i < x.size(); ++i) {
            if (std::isnan(want[i])) {
              ASSERT_TRUE(std::isnan(got[i]));
            } else {
              ASSERT_EQ(bits(want)[i], bits(got)[i]) << "d " << r.d << ", element " << i;
            }
          }
        }
      }
    }
  }
}

TEST(GridVectors, CodesAndScalesHaveTheBitsOfTheScalarOnes) {
  test::Rng rng = test::test_rng();
  for (const Isa& isa : every_isa()) {
    for (const Rotation& r : kRotations) {
      for (const std::vector<float>& y : vectors(rng, r.d)) {
        for (const Grid g : kAll) {
          std::vector<u8_t> want(y.size(), 1), got(y.size(), 2);
          bool finite = false, also = true;
          const float scale = encode_vector(g, y.data(), r.d, want.data(), finite);
          const float same = FOVEA_CPU_KERNEL(isa, EncodeByVectors)(g, y.data(), r.d, got.data(), &also);
          ASSERT_EQ(bits({scale}), bits({same})) << grid_row(g).name << ' ' << r.d << ' ' << scale << ' ' << same;
          ASSERT_EQ(want, got) << grid_row(g).name << ' ' << r.d;
          ASSERT_EQ(finite, also);
        }
      }
    }
  }
}

// Rows end where memory does.
TEST(GridVectors, LevelsAreThoseOfTheCodes) {
  test::Rng rng = test::test_rng();
  for (const Isa& isa : every_isa()) {
    for (const Rotation& r : kRotations) {
      for (const Grid g : kAll) {
        std::vector<u8_t> codes(static_cast<size_t>(r.d));
        for (u8_t& c : codes) c = static_cast<u8_t>(rng.bits() & ((1u << grid_row(g).bits) - 1));
        const PlaneBits planes = grid_planes(g);
        test::Guarded low(static_cast<size_t>(plane_row_bytes(planes.bits[0], r.d)));
        test::Guarded high(static_cast<size_t>(std::max(4, plane_row_bytes(planes.bits[1], r.d))));
        const PlaneRows rows{{reinterpret_cast<u8_t*>(low.data()), reinterpret_cast<u8_t*>(high.data())}};
        pack_codes(g, codes.data(), r.d, rows);
        const std::vector<std::byte> low_rule = low.copy(), high_rule = high.copy();
        low.fill(0x5A);
        if (planes.bits[1] > 0) high.fill(0x5A);
        FOVEA_CPU_KERNEL(isa, PackByVectors)(g, codes.data(), r.d, rows);
        ASSERT_EQ(low.copy(), low_rule) << grid_row(g).name << ' ' << r.d;
        ASSERT_EQ(high.copy(), high_rule) << grid_row(g).name << ' ' << r.d;
        std::vector<float> got(codes.size());
        FOVEA_CPU_KERNEL(isa, LevelsByVectors)(g, rows, r.d, got.data());
        for (size_t i = 0; i < codes.size(); ++i) {
          ASSERT_EQ(got[i], grid_value(g, codes[i])) << grid_row(g).name << ' ' << r.d << ' ' << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace fovea::cpu
#endif
