// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#include <gtest/gtest.h>

#include <string>

namespace fovea {
namespace {

// Key 00 01 .. 0f of the algorithm's published vectors.
constexpr uint64_t kLow = 0x0706050403020100, kHigh = 0x0f0e0d0c0b0a0908;

std::string digest(const std::string& text, uint64_t low, uint64_t high) {
  Hasher hasher(low, high);
  hasher.bytes(text.data(), text.size());
  return hex(hasher.finish());
}

TEST(Hash, KnownAnswers) {
  EXPECT_EQ(digest("", kLow, kHigh), "a3817f04ba25a8e66df67214c7550293");
  EXPECT_EQ(digest(std::string(1, '\0'), kLow, kHigh), "da87c1d86b99af44347659119b22fc45");
  EXPECT_EQ(digest("abcdefghijklmnopqrstuvwxyz", kLow, kHigh), "00f71a5d15ed2c558029673581414f88");
  EXPECT_EQ(digest("abcdefghijklmnopqrstuvwxyz", 0, 0), "7b866532cbfc33840523223c6b06374f");
  EXPECT_EQ(hex(hash_bytes("", 0)), "5049d74780a3e07d4202ab47d4cef2f4");
}

TEST(Hash, PiecesOfAnyLengthGiveTheHashOfTheWhole) {
  const std::string text = "The quick brown fox jumps over the lazy dog";
  for (size_t first = 0; first <= text.size(); ++first) {
    for (size_t second = first; second <= text.size(); ++second) {
      Hasher pieces;
      pieces.bytes(text.data(), first);
      pieces.bytes(text.data() + first, second - first);
      pieces.bytes(text.data() + second, text.size() - second);
      ASSERT_EQ(pieces.finish(), hash_bytes(text.data(), text.size())) << first << " " << second;
    }
  }
}

TEST(Hash, TextsDoNotRunTogether) {
  Hasher a, b;
  a.text("ab");
  a.text("c");
  b.text("a");
  b.text("bc");
  EXPECT_NE(a.finish(), b.finish());
}

TEST(Hash, EveryBitMatters) {
  std::string text(40, 'x');
  const Hash128 before = hash_bytes(text.data(), text.size());
  for (size_t i = 0; i < text.size() * 8; ++i) {
    text[i / 8] = static_cast<char>(text[i / 8] ^ 1 << i % 8);
    EXPECT_NE(hash_bytes(text.data(), text.size()), before) << i;
    text[i / 8] = static_cast<char>(text[i / 8] ^ 1 << i % 8);
  }
}

}  // namespace
}  // namespace fovea
