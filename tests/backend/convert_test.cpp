// SPDX-License-Identifier: Apache-2.0
// The scalar conversions against the definition of the formats in fp64, then the vector ones against the scalar, to the
// bit, on every instruction set.
#include "shared/convert.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/convert_test.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "backend/cpu/kernels/convert-inl.h"
#include "backend/cpu/kernels/isa.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::cpu {
namespace HWY_NAMESPACE {

// n elements of packed memory to f32, and back.
void ConvertFrom(Dtype type, const void* from, size_t n, float* to) {
  const F32Tag d;
  const size_t step = hn::Lanes(d);
  WithFloatType(type, [&](auto t) {
    const auto* p = static_cast<const typename decltype(t)::Raw*>(from);
    for (size_t i = 0; i < n; i += step) {
      hn::StoreU(n - i < step ? LoadF32Part(t, d, p + i, n - i) : LoadF32(t, d, p + i), d, to + i);
    }
  });
}

void ConvertTo(Dtype type, const float* from, size_t n, void* to) {
  const F32Tag d;
  const size_t step = hn::Lanes(d);
  WithFloatType(type, [&](auto t) {
    auto* p = static_cast<typename decltype(t)::Raw*>(to);
    for (size_t i = 0; i < n; i += step) {
      const auto x = hn::LoadU(d, from + i);
      n - i < step ? StoreF32Part(t, d, x, p + i, n - i) : StoreF32(t, d, x, p + i);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "backend/every_isa.h"
#include "oracle/numbers.h"
#include "support/guarded.h"
#include "support/random.h"

namespace fovea::cpu {

HWY_EXPORT(ConvertFrom);
HWY_EXPORT(ConvertTo);

namespace {

using test::Guarded;

constexpr Dtype kNarrow[] = {Dtype::f16, Dtype::bf16, Dtype::e4m3};

float widen(Dtype type, uint32_t bits) {
  if (type == Dtype::f16) return f16_to_f32(static_cast<uint16_t>(bits));
  if (type == Dtype::bf16) return bf16_to_f32(static_cast<uint16_t>(bits));
  return e4m3_to_f32(static_cast<uint8_t>(bits));
}

uint32_t narrow(Dtype type, float x) {
  return type == Dtype::f16 ? f32_to_f16(x) : type == Dtype::bf16 ? f32_to_bf16(x) : f32_to_e4m3(x);
}

uint32_t codes(Dtype type) {
  return type == Dtype::e4m3 ? 256 : 65536;
}

int bytes(Dtype type) {
  return dtype_block_bytes(type);
}

// f32 bits to try: a stride over all of them, every narrow value, and the middle of each two neighbours with the f32
// beside it on either side. Shorter under sanitizers.
std::vector<uint32_t> inputs(Dtype type, uint64_t stride) {
  std::vector<uint32_t> all;
  stride = static_cast<uint64_t>(static_cast<double>(stride) / test::effort());
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += stride) all.push_back(static_cast<uint32_t>(bits));
  for (uint32_t code = 0; code + 1 < codes(type); ++code) {
    const double a = static_cast<double>(widen(type, code)), b = static_cast<double>(widen(type, code + 1));
    all.push_back(bits_of_float(widen(type, code)));
    const auto middle = bits_of_float(static_cast<float>((a + b) / 2));
    for (const uint32_t bits : {middle - 1, middle, middle + 1}) all.push_back(bits);
  }
  for (const uint32_t bits : {0x7F800000u, 0x7F800001u, 0x7FC00000u, 0x7FFFFFFFu, 0x7F7FFFFFu, 1u, 0x007FFFFFu}) {
    all.push_back(bits);
    all.push_back(bits | 0x80000000u);
  }
  return all;
}

TEST(Convert, EveryNarrowValueWidensToItsDefinition) {
  for (const Dtype type : kNarrow) {
    for (uint32_t code = 0; code < codes(type); ++code) {
      const double want = oracle::decode(static_cast<int32_t>(type), &code);
      const float got = widen(type, code);
      ASSERT_EQ(std::isnan(got), std::isnan(want)) << find_dtype(static_cast<int>(type))->name << ' ' << code;
      ASSERT_EQ(std::signbit(got), (code >> (8 * bytes(type) - 1)) != 0);
      if (std::isnan(want)) continue;
      ASSERT_EQ(static_cast<double>(got), want) << find_dtype(static_cast<int>(type))->name << ' ' << code;
    }
  }
}

TEST(Convert, NarrowingRoundsAsTheDefinition) {
  for (const Dtype type : kNarrow) {
    SCOPED_TRACE(find_dtype(static_cast<int>(type))->name);
    for (const uint32_t bits : inputs(type, 2003)) {
      const float x = float_of_bits(bits);
      const uint32_t got = narrow(type, x);
      if (std::isnan(x)) {
        ASSERT_TRUE(std::isnan(widen(type, got))) << bits;
        ASSERT_EQ(got >> (8 * bytes(type) - 1), bits >> 31) << "the sign of a NaN stays";
        continue;
      }
      uint32_t want = 0;
      oracle::encode(static_cast<int32_t>(type), &want, static_cast<double>(x));
      ASSERT_EQ(got, want) << x << " (bits " << bits << ")";
    }
  }
}

TEST(Convert, ThereAndBackIsTheSame) {
  for (const Dtype type : kNarrow) {
    for (uint32_t code = 0; code < codes(type); ++code) {
      if (std::isnan(widen(type, code))) continue;
      ASSERT_EQ(narrow(type, widen(type, code)), code);
    }
  }
}

TEST(ConvertVectors, WidenToTheBit) {
  for (const Isa& isa : every_isa()) {
    for (const Dtype type : kNarrow) {
      const size_t n = codes(type);
      std::vector<std::byte> from(n * static_cast<size_t>(bytes(type)));
      for (uint32_t code = 0; code < n; ++code) {
        std::memcpy(from.data() + code * static_cast<size_t>(bytes(type)), &code, static_cast<size_t>(bytes(type)));
      }
      std::vector<float> to(n);
      FOVEA_CPU_KERNEL(isa, ConvertFrom)(type, from.data(), n, to.data());
      for (uint32_t code = 0; code < n; ++code) {
        ASSERT_EQ(bits_of_float(to[code]), bits_of_float(widen(type, code)))
            << hwy::TargetName(isa.target) << ' ' << find_dtype(static_cast<int>(type))->name << ' ' << code;
      }
    }
  }
}

// NaN payloads, subnormals and ties are among the inputs.
TEST(ConvertVectors, NarrowToTheBit) {
  for (const Dtype type : kNarrow) {
    std::vector<uint32_t> bits = inputs(type, 509);
    bits.resize(bits.size() / 64 * 64);
    std::vector<float> from(bits.size());
    std::memcpy(from.data(), bits.data(), bits.size() * 4);
    for (const Isa& isa : every_isa()) {
      std::vector<std::byte> to(bits.size() * static_cast<size_t>(bytes(type)));
      FOVEA_CPU_KERNEL(isa, ConvertTo)(type, from.data(), from.size(), to.data());
      for (size_t i = 0; i < bits.size(); ++i) {
        uint32_t got = 0;
        std::memcpy(&got, to.data() + i * static_cast<size_t>(bytes(type)), static_cast<size_t>(bytes(type)));
        ASSERT_EQ(got, narrow(type, float_of_bits(bits[i])))
            << hwy::TargetName(isa.target) << ' ' << find_dtype(static_cast<int>(type))->name << " bits " << bits[i];
      }
    }
  }
}

// Parts of vectors touch exactly their elements: guard pages lie on both sides.
TEST(ConvertVectors, PartsStayInside) {
  for (const Isa& isa : every_isa()) {
    for (const Dtype type : {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::e4m3}) {
      for (size_t n = 1; n <= 40; ++n) {
        for (const test::Place place : {test::Place::begin, test::Place::end}) {
          const Guarded memory(n * static_cast<size_t>(bytes(type)), place, 0x31), back(memory.size(), place);
          std::vector<float> wide(64, -1.0f);
          FOVEA_CPU_KERNEL(isa, ConvertFrom)(type, memory.data(), n, wide.data());
          FOVEA_CPU_KERNEL(isa, ConvertTo)(type, wide.data(), n, back.data());
          ASSERT_EQ(memory.copy(), back.copy());
          for (size_t i = n; i % 4 != 0; ++i) ASSERT_EQ(wide[i], 0.0f) << "lanes after the part are zeros";
        }
      }
    }
  }
}

}  // namespace
}  // namespace fovea::cpu
#endif
