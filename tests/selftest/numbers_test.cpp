// SPDX-License-Identifier: Apache-2.0
// The tests' own number formats, poison and comparison, against the compiler's half type and by exhaustion.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "oracle/numbers.h"
#include "support/check.h"
#include "support/guarded.h"
#include "support/tensors.h"

namespace fovea::test {
namespace {

template <class T>
double decode_bits(int32_t dtype, T bits) {
  return oracle::decode(dtype, &bits);
}
template <class T>
T encode_bits(int32_t dtype, double x) {
  T bits{};
  oracle::encode(dtype, &bits, x);
  return bits;
}

#if defined(__clang__) && defined(__x86_64__)
using CompilersHalf = __fp16;            // before clang 15 the only one
constexpr bool kCompilerRounds = false;  // its runtime gives 0 near 2^-14
#else
using CompilersHalf = _Float16;
constexpr bool kCompilerRounds = true;
#endif

TEST(Numbers, EveryHalfAgreesWithTheCompiler) {
  for (uint32_t i = 0; i < 65536; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    CompilersHalf h;
    std::memcpy(&h, &bits, 2);
    const double want = static_cast<double>(h);
    const double got = decode_bits(FOVEA_F16, bits);
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(got)) << i;
      continue;
    }
    EXPECT_EQ(got, want) << i;
    EXPECT_EQ(encode_bits<uint16_t>(FOVEA_F16, want), bits);
    if (!kCompilerRounds) continue;
    // Halfway to the next one, and a hair to both sides of it, rounds as the compiler does.
    const double half = oracle::ulp(FOVEA_F16, want) / 2;
    for (double x : {want + half, want + half * 0.999, want + half * 1.001}) {
      const auto rounded = static_cast<CompilersHalf>(x);
      uint16_t expected;
      std::memcpy(&expected, &rounded, 2);
      ASSERT_EQ(encode_bits<uint16_t>(FOVEA_F16, x), expected) << x;
    }
  }
}

TEST(Numbers, EveryBfloatIsTheUpperHalfOfAFloat) {
  for (uint32_t i = 0; i < 65536; ++i) {
    const uint32_t wide = i << 16;
    float f;
    std::memcpy(&f, &wide, 4);
    const double got = decode_bits(FOVEA_BF16, static_cast<uint16_t>(i));
    if (std::isnan(f)) {
      EXPECT_TRUE(std::isnan(got)) << i;
      continue;
    }
    EXPECT_EQ(got, static_cast<double>(f)) << i;
    EXPECT_EQ(encode_bits<uint16_t>(FOVEA_BF16, f), i);
  }
  EXPECT_EQ(oracle::round_to(FOVEA_BF16, 1.0 + 0x1p-8), 1.0);               // tie to even
  EXPECT_EQ(oracle::round_to(FOVEA_BF16, 1.0 + 3 * 0x1p-8), 1.0 + 0x1p-6);  // tie to even, upwards
}

TEST(Numbers, EveryE4m3) {
  EXPECT_EQ(decode_bits<uint8_t>(FOVEA_E4M3, 0x7E), 448.0);
  EXPECT_EQ(decode_bits<uint8_t>(FOVEA_E4M3, 0x01), 0x1p-9);
  EXPECT_EQ(decode_bits<uint8_t>(FOVEA_E4M3, 0x38), 1.0);
  double previous = -1;
  for (uint32_t i = 0; i < 128; ++i) {
    const double x = decode_bits(FOVEA_E4M3, static_cast<uint8_t>(i));
    if (i == 127) {
      EXPECT_TRUE(std::isnan(x));
      continue;
    }
    EXPECT_GT(x, previous) << i;
    EXPECT_EQ(encode_bits<uint8_t>(FOVEA_E4M3, x), i);
    EXPECT_EQ(encode_bits<uint8_t>(FOVEA_E4M3, -x), i | 0x80);
    if (i > 0) {  // the midpoint below goes to the even neighbour
      EXPECT_EQ(encode_bits<uint8_t>(FOVEA_E4M3, (previous + x) / 2), i % 2 ? i - 1 : i);
    }
    previous = x;
  }
  for (double x : {449.0, 480.0, 1e30, static_cast<double>(INFINITY)}) {
    EXPECT_EQ(encode_bits<uint8_t>(FOVEA_E4M3, x), 0x7E);
    EXPECT_EQ(encode_bits<uint8_t>(FOVEA_E4M3, -x), 0xFE);
  }
  EXPECT_TRUE(std::isnan(oracle::round_to(FOVEA_E4M3, NAN)));
}

TEST(Numbers, FloatRoundsOnceFromDouble) {
  Rng rng = test_rng();
  for (int i = 0; i < 100000; ++i) {
    const double x = std::ldexp(rng.normal(), static_cast<int>(rng.integer(-150, 127)));
    const auto f = static_cast<float>(x);
    ASSERT_EQ(oracle::round_to(FOVEA_F32, x), static_cast<double>(f)) << x;
  }
}

TEST(Guarded, BothSidesFault) {
  for (Place place : {Place::end, Place::begin}) {
    const Guarded buffer(656, place);
    EXPECT_TRUE(buffer.all(kPoison));
    const std::byte* outside = place == Place::end ? buffer.data() + buffer.size() : buffer.data() - 1;
    EXPECT_DEATH(static_cast<void>(*static_cast<const volatile std::byte*>(outside)), "");
  }
}

TEST(TensorBox, EveryLayoutHoldsItsElements) {
  Rng rng = test_rng();
  for (int i = 0; i < 50; ++i) {
    const TensorBox box(FOVEA_F16, {3, 4, 5}, random_layout(rng, 3));
    box.fill([](int64_t e) { return static_cast<double>(e); });
    for (int64_t e = 0; e < box.size(); ++e) ASSERT_EQ(box.get(e), static_cast<double>(e));
    EXPECT_TRUE(box.outside_untouched());
  }
  const TensorBox padded(FOVEA_F32, {2, 2}, {.pad = {0, 1}});
  *(static_cast<float*>(padded.at(1)) + 1) = 0;  // the padding behind row 0
  EXPECT_FALSE(padded.outside_untouched());
  const TensorBox backwards(FOVEA_F32, {4}, {.reversed = 1});
  EXPECT_EQ(backwards.view().stride[0], -1);
  EXPECT_EQ(index_text(TensorBox(FOVEA_F32, {2, 3}), 5), "[1, 2]");
}

TEST(Check, SeesEachKindOfDifference) {
  const TensorBox t = floats({1, 2, NAN, -INFINITY});
  EXPECT_TRUE(within(t, {1, 2, NAN, -INFINITY}, 0.0));
  EXPECT_TRUE(within(t, {1.5, 2, NAN, -INFINITY}, 0.5));
  EXPECT_FALSE(within(t, {1.5, 2, NAN, -INFINITY}, 0.49));
  EXPECT_FALSE(within(t, {1, 2, 3, -INFINITY}, 1e30));
  EXPECT_FALSE(within(t, {1, 2, NAN, -1e30}, 1e38));
  EXPECT_FALSE(within(t, {1, NAN, NAN, -INFINITY}, 1.0));
}

}  // namespace
}  // namespace fovea::test
