// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "shared/mask/bits.h"
#include "shared/mask/interval.h"

namespace fovea {
namespace {

// The definitions of params.h, key by key.
bool sees(const MaskSpec& m, i64_t p, i64_t j) {
  switch (m.kind) {
    case MaskKind::none:
      return true;
    case MaskKind::causal:
      return j <= p;
    case MaskKind::window:
      return (m.window_left < 0 || j >= p - m.window_left) && (m.window_right < 0 || j <= p + m.window_right);
    case MaskKind::chunk: {
      const auto chunk = [&](i64_t x) {
        i64_t c = 0;
        while (m.chunk_origin + (c + 1) * m.chunk_size <= x) ++c;
        while (m.chunk_origin + c * m.chunk_size > x) --c;
        return c;
      };
      return j <= p && chunk(j) == chunk(p);
    }
  }
  return false;
}

TEST(MaskInterval, IsTheSetOfSeenKeys) {
  std::vector<MaskSpec> masks = {{.kind = MaskKind::none}, {.kind = MaskKind::causal}};
  for (i64_t left : {-1, 0, 1, 7}) {
    for (i64_t right : {-1, 0, 3}) {
      masks.push_back({.kind = MaskKind::window, .window_left = left, .window_right = right});
    }
  }
  for (i64_t size : {1, 3, 8}) {
    for (i64_t origin : {-5, 0, 2, 11}) {
      masks.push_back({.kind = MaskKind::chunk, .chunk_size = size, .chunk_origin = origin});
    }
  }
  for (const MaskSpec& m : masks) {
    for (i64_t len : {0, 1, 5, 17}) {
      for (i64_t p = -9; p < len + 2; ++p) {
        const Interval i = mask_interval(m, p, len);
        for (i64_t j = 0; j < len; ++j) {
          EXPECT_EQ(j >= i.lo && j < i.hi, sees(m, p, j)) << static_cast<int>(m.kind) << " p " << p << " j " << j;
        }
        EXPECT_TRUE(i.empty() || (i.lo >= 0 && i.hi <= len));
      }
    }
  }
}

TEST(MaskBits, IntervalsBecomeWords) {
  for (i64_t lo = -70; lo < 130; lo += 3) {
    for (i64_t hi = -70; hi < 130; hi += 3) {
      const u64_t word = interval_bits({lo, hi});
      for (int k = 0; k < kTileKeys; ++k) EXPECT_EQ(word >> k & 1, static_cast<u64_t>(k >= lo && k < hi));
    }
  }
}

TEST(MaskBits, PackedRowsAreReadAtAnyOffset) {
  const std::vector<u32_t> words = {0x9E3779B9u, 0x7F4A7C15u, 0xF39CC060u};
  for (i64_t first = -100; first < 120; ++first) {
    const u64_t bits = packed_bits(reinterpret_cast<const char*>(words.data()), 3, first);
    for (i64_t k = 0; k < kTileKeys; ++k) {
      const i64_t at = first + k;
      const u64_t expected = at < 0 ? 1 : at >= 96 ? 0 : words[static_cast<size_t>(at / 32)] >> (at % 32) & 1;
      EXPECT_EQ(bits >> k & 1, expected) << first << " + " << k;
    }
  }
}

}  // namespace
}  // namespace fovea
