// SPDX-License-Identifier: Apache-2.0
// Visibility of a tile of 64 keys as one word, bit k for key k, and packed masks read as such words. Freestanding.
#pragma once

#include "shared/mask/interval.h"
#include "shared/view.h"

namespace fovea {

inline constexpr int kTileKeys = 64;

// Ones for the first n keys, n from 0 to 64.
constexpr u64_t first_bits(i64_t n) {
  return n >= kTileKeys ? ~u64_t{0} : n <= 0 ? 0 : (u64_t{1} << n) - 1;
}

// The keys of an interval given relative to the tile's first key.
constexpr u64_t interval_bits(Interval i) {
  return first_bits(i.hi) & ~first_bits(i.lo);
}

// Bits [first, first + 64) of a packed row of `words` u32 words; bits before 0 are ones (visible), bits after the last
// word zeros. `row` needs the alignment of its words only.
inline u64_t packed_bits(const char* row, i64_t words, i64_t first) {
  if (first <= -kTileKeys) return ~u64_t{0};
  const i64_t begin = first >> 5;
  u64_t bits = 0;
  for (i64_t w = begin; w < begin + 3; ++w) {  // 64 bits at any offset touch at most three words
    u32_t word = w < 0 ? ~u32_t{0} : 0;
    if (w >= 0 && w < words) word = load<u32_t>(row + w * 4);
    const i64_t shift = w * 32 - first;  // where the word's bit 0 goes
    if (shift >= kTileKeys) continue;
    bits |= shift >= 0 ? u64_t{word} << shift : u64_t{word} >> -shift;
  }
  return bits;
}

}  // namespace fovea
