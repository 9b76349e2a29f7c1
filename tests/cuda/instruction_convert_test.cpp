// SPDX-License-Identifier: Apache-2.0
// Conversions against shared/convert.h: every code of fp8 and f16, and f32 at and around every rounding point. Special
// functions against double.
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <random>

#include "cuda/instructions.h"

namespace fovea::cuda {
namespace {

bool f16_is_nan(u32_t x) {
  return (x & 0x7FFF) > 0x7C00;
}

class InstructionConvert : public OnCard {
 protected:
  std::vector<u32_t> map(const char* file, const char* entry, const std::vector<u32_t>& in) {
    const KernelUse use = load(file, entry);
    const auto in_on = upload(in), out_on = upload(std::vector<u32_t>(in.size(), 0x12345678));
    const auto blocks = static_cast<unsigned>((in.size() + 255) / 256);
    run(use, {.grid = {blocks}, .block = {256}},
        cuda_test::WordsArgs{.in = in_on->as<u32_t>(), .out = out_on->as<u32_t>(), .n = static_cast<i64_t>(in.size())});
    return download<u32_t>(*out_on, in.size());
  }
  void expect(const char* file, const char* entry, const std::vector<u32_t>& in,
              const std::function<u32_t(u32_t)>& want) {
    const std::vector<u32_t> out = map(file, entry, in);
    int wrong = 0;
    for (size_t i = 0; i < in.size(); ++i) {
      const u32_t wanted = want(in[i]);
      if (out[i] != wanted && wrong++ < 5) {
        ADD_FAILURE() << entry << std::hex << " of " << in[i] << " is " << out[i] << ", not " << wanted;
      }
    }
    EXPECT_EQ(wrong, 0) << entry << ": of " << in.size();
  }

  static std::vector<u32_t> all_words(u32_t count) {
    std::vector<u32_t> words(count);
    for (u32_t i = 0; i < count; ++i) words[i] = i;
    return words;
  }
  // Every f16 and bf16 value, the middle to the next one, their neighbours, and any other bits.
  static std::vector<u32_t> rounding_points() {
    std::vector<u32_t> words;
    const auto around = [&](u32_t bits) {
      for (const u32_t d : {0u, 1u, 0xFFFFFFFFu}) words.push_back(bits + d);
    };
    for (u32_t h = 0; h < 65536; ++h) {
      const u32_t f16 = bits_of_float(f16_to_f32(static_cast<u16_t>(h)));
      const u32_t next = bits_of_float(f16_to_f32(static_cast<u16_t>(h + 1)));
      around(f16);
      around(bits_of_float(0.5f * float_of_bits(f16) + 0.5f * float_of_bits(next)));
      around(h << 16);
      words.push_back(h << 16 | 0x8000);
      words.push_back(h << 16 | 0x7FFF);
    }
    for (u32_t e = 0; e < 255; ++e) {  // e4m3's middles
      const float x = e4m3_to_f32(static_cast<u8_t>(e)), y = e4m3_to_f32(static_cast<u8_t>(e + 1));
      around(bits_of_float(0.5f * x + 0.5f * y));
    }
    std::mt19937 random(5);
    for (int i = 0; i < 200000; ++i) words.push_back(static_cast<u32_t>(random()));
    return words;
  }
};

// The hardware's NaN of each type.
u32_t cvt_f16(u32_t x) {
  const u16_t h = f32_to_f16(float_of_bits(x));
  return f16_is_nan(h) ? 0x7FFF : h;
}
u32_t cvt_bf16(u32_t x) {
  return std::isnan(float_of_bits(x)) ? 0x7FFF : f32_to_bf16(float_of_bits(x));
}
u32_t cvt_e4m3(float x) {
  return std::isnan(x) ? 0x7F : f32_to_e4m3(x);
}

TEST_F(InstructionConvert, F32ToAndFromSixteenBits) {
  const std::vector<u32_t> points = rounding_points();
  expect("convert", "f16_of_f32", points, cvt_f16);
  // A NaN of f32 is any; the values are exact.
  const std::vector<u32_t> f32 = map("convert", "f32_of_f16", all_words(65536));
  for (u32_t h = 0; h < 65536; ++h) {
    const float want = f16_to_f32(static_cast<u16_t>(h));
    ASSERT_TRUE(std::isnan(want) ? std::isnan(float_of_bits(f32[h])) : f32[h] == bits_of_float(want)) << h;
  }
  SKIP_BELOW(80);
  expect("convert_sm80", "pack_f16", points, [](u32_t x) { return cvt_f16(x) | cvt_f16(x ^ 0x80000000u) << 16; });
  expect("convert_sm80", "pack_bf16", points, [](u32_t x) { return cvt_bf16(x) | cvt_bf16(x ^ 0x80000000u) << 16; });
}

// Both halves of a word: every f16 below, one of another size above.
std::vector<u32_t> f16_pairs() {
  std::vector<u32_t> words;
  for (u32_t h = 0; h < 65536; ++h) words.push_back(h | ((h * 40503u + 11u) & 0xFFFF) << 16);
  return words;
}

TEST_F(InstructionConvert, Fp8ByIntegersIsSharedConvert) {
  const std::vector<u32_t> codes = all_words(65536);
  expect("convert_fp8", "f16x2_of_e4m3x2_by_integers", codes, [](u32_t x) -> u32_t {
    return f32_to_f16(e4m3_to_f32(static_cast<u8_t>(x))) |
           static_cast<u32_t>(f32_to_f16(e4m3_to_f32(static_cast<u8_t>(x >> 8)))) << 16;
  });
  expect("convert_fp8", "e4m3x2_of_f16x2_by_integers", f16_pairs(), [](u32_t x) -> u32_t {
    return f32_to_e4m3(f16_to_f32(static_cast<u16_t>(x))) | f32_to_e4m3(f16_to_f32(static_cast<u16_t>(x >> 16))) << 8;
  });
  expect("convert_fp8", "e4m3_of_f32_shared", rounding_points(),
         [](u32_t x) -> u32_t { return f32_to_e4m3(float_of_bits(x)); });
  SKIP_BELOW(80);
  expect("convert_sm80", "bf16x2_of_e4m3x2", codes, [](u32_t x) -> u32_t {
    return f32_to_bf16(e4m3_to_f32(static_cast<u8_t>(x))) |
           static_cast<u32_t>(f32_to_bf16(e4m3_to_f32(static_cast<u8_t>(x >> 8)))) << 16;
  });
}

TEST_F(InstructionConvert, Fp8ByInstructions) {
  SKIP_BELOW(89);
  expect("convert_sm89", "e4m3x2_of_f16x2", f16_pairs(), [](u32_t x) {
    return cvt_e4m3(f16_to_f32(static_cast<u16_t>(x))) | cvt_e4m3(f16_to_f32(static_cast<u16_t>(x >> 16))) << 8;
  });
  expect("convert_sm89", "e4m3x2_of_f32", rounding_points(),
         [](u32_t x) { return cvt_e4m3(float_of_bits(x)) | cvt_e4m3(float_of_bits(x ^ 0x80000000u)) << 8; });
  // To f16 every value is exact, and a NaN of f16 is any.
  for (const bool e5m2 : {false, true}) {
    const char* entry = e5m2 ? "f16x2_of_e5m2x2" : "f16x2_of_e4m3x2";
    const std::vector<u32_t> out = map("convert_sm89", entry, all_words(65536));
    for (u32_t i = 0; i < 2 * 65536; ++i) {
      const u32_t code = i / 2 >> (i % 2 * 8) & 0xFF, got = out[i / 2] >> (i % 2 * 16) & 0xFFFF;
      const u32_t want = e5m2 ? code << 8 : f32_to_f16(e4m3_to_f32(static_cast<u8_t>(code)));
      ASSERT_TRUE(f16_is_nan(want) ? f16_is_nan(got) : got == want) << entry << " of " << code << " is " << got;
    }
  }
  const std::vector<u32_t> wide = map("convert_sm89", "widen_bf16", all_words(65536));
  for (u32_t i = 0; i < 2 * 65536; ++i) {
    const u32_t code = i / 2 >> (i % 2 * 8) & 0xFF, got = wide[i / 2] >> (i % 2 * 16) & 0xFFFF;
    const float want = e4m3_to_f32(static_cast<u8_t>(code)), found = bf16_to_f32(static_cast<u16_t>(got));
    ASSERT_TRUE(want != want ? found != found : bits_of_float(want) == bits_of_float(found)) << code << " is " << got;
  }
}

TEST_F(InstructionConvert, SpecialFunctionsKeepTheirBounds) {
  std::mt19937 random(6);
  const auto uniform = [&](double low, double high) {
    std::vector<u32_t> words;
    std::uniform_real_distribution<double> draw(low, high);
    for (int i = 0; i < 300000; ++i) words.push_back(bits_of_float(static_cast<float>(draw(random))));
    return words;
  };
  const auto worst = [&](const char* file, const char* entry, const std::vector<u32_t>& in, double (*exact)(double),
                         bool relative) {
    const std::vector<u32_t> out = map(file, entry, in);
    double error = 0;
    for (size_t i = 0; i < in.size(); ++i) {
      const double want = exact(float_of_bits(in[i]));
      const double off = std::fabs(float_of_bits(out[i]) - want);
      error = std::fmax(error, relative ? off / std::fabs(want) : off);
    }
    std::printf("%s: largest %s error 2^%.2f\n", entry, relative ? "relative" : "absolute", std::log2(error));
    return error;
  };
  const auto exp2_exact = +[](double x) { return std::exp2(x); };
  const auto log2_exact = +[](double x) { return std::log2(x); };
  const auto rcp_exact = +[](double x) { return 1 / x; };
  const auto tanh_exact = +[](double x) { return std::tanh(x); };
  EXPECT_LE(worst("convert", "exp2_approx", uniform(-125, 127), exp2_exact, true), 0x1p-22);
  EXPECT_LE(worst("convert", "log2_approx", uniform(0.5, 2), log2_exact, false), 0x1p-22);
  EXPECT_LE(worst("convert", "log2_approx", uniform(2, 1e6), log2_exact, true), 0x1p-22);
  EXPECT_LE(worst("convert", "rcp_approx", uniform(1e-3, 1e3), rcp_exact, true), 0x1p-23);

  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const auto at = [&](const char* entry, float x) {
    return float_of_bits(map("convert", entry, {bits_of_float(x)})[0]);
  };
  EXPECT_EQ(at("exp2_approx", -infinity), 0);
  EXPECT_EQ(at("exp2_approx", -200), 0);
  EXPECT_EQ(at("exp2_approx", 0), 1);
  EXPECT_EQ(at("exp2_approx", infinity), infinity);
  EXPECT_TRUE(std::isnan(at("exp2_approx", nan)));
  EXPECT_EQ(at("log2_approx", 0), -infinity);
  EXPECT_EQ(at("log2_approx", 0x1p-140f), -infinity) << "a subnormal counts as zero";
  EXPECT_TRUE(std::isnan(at("log2_approx", -1)));
  EXPECT_EQ(at("rcp_approx", 0), infinity);
  EXPECT_EQ(at("rcp_approx", -infinity), 0);
  SKIP_BELOW(75);
  EXPECT_LE(worst("convert_sm75", "tanh_approx", uniform(-10, 10), tanh_exact, true), 0x1p-10 * 0.536);
}

}  // namespace
}  // namespace fovea::cuda
