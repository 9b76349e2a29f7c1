// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#include <bit>

namespace fovea {

namespace {

void rounds(uint64_t (&v)[4], int count) {
  for (int i = 0; i < count; ++i) {
    v[0] += v[1];
    v[2] += v[3];
    v[1] = std::rotl(v[1], 13) ^ v[0];
    v[3] = std::rotl(v[3], 16) ^ v[2];
    v[0] = std::rotl(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = std::rotl(v[1], 17) ^ v[2];
    v[3] = std::rotl(v[3], 21) ^ v[0];
    v[2] = std::rotl(v[2], 32);
  }
}

uint64_t little_endian(const unsigned char* p) {
  uint64_t word = 0;
  for (int i = 7; i >= 0; --i) word = word << 8 | p[i];
  return word;
}

}  // namespace

Hasher::Hasher(uint64_t key_low, uint64_t key_high)
    : v_{key_low ^ 0x736f6d6570736575u, key_high ^ 0x646f72616e646f6du ^ 0xee, key_low ^ 0x6c7967656e657261u,
         key_high ^ 0x7465646279746573u} {}

void Hasher::word(uint64_t m) {
  v_[3] ^= m;
  rounds(v_, 2);
  v_[0] ^= m;
}

void Hasher::bytes(const void* data, size_t size) {
  const auto* p = static_cast<const unsigned char*>(data);
  const auto* const end = p + size;
  for (; p != end && size_ % 8 != 0; ++p, ++size_) {
    tail_ |= static_cast<uint64_t>(*p) << size_ % 8 * 8;
    if (size_ % 8 == 7) {
      word(tail_);
      tail_ = 0;
    }
  }
  for (; end - p >= 8; p += 8, size_ += 8) word(little_endian(p));
  for (; p != end; ++p, ++size_) tail_ |= static_cast<uint64_t>(*p) << size_ % 8 * 8;
}

void Hasher::text(std::string_view text) {
  number(text.size());
  bytes(text.data(), text.size());
}

void Hasher::number(uint64_t value) {
  unsigned char raw[8];
  for (int i = 0; i < 8; ++i) raw[i] = static_cast<unsigned char>(value >> 8 * i);
  bytes(raw, sizeof raw);
}

void Hasher::hash(const Hash128& value) {
  number(value.low);
  number(value.high);
}

Hash128 Hasher::finish() const {
  Hasher end = *this;
  end.word(tail_ | size_ << 56);
  end.v_[2] ^= 0xee;
  rounds(end.v_, 4);
  Hash128 out;
  out.low = end.v_[0] ^ end.v_[1] ^ end.v_[2] ^ end.v_[3];
  end.v_[1] ^= 0xdd;
  rounds(end.v_, 4);
  out.high = end.v_[0] ^ end.v_[1] ^ end.v_[2] ^ end.v_[3];
  return out;
}

Hash128 hash_bytes(const void* data, size_t size) {
  Hasher hasher;
  hasher.bytes(data, size);
  return hasher.finish();
}

std::string hex(const Hash128& hash) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint64_t half : {hash.low, hash.high}) {
    for (int byte = 0; byte < 8; ++byte) {
      text += kDigits[half >> (8 * byte + 4) & 15];
      text += kDigits[half >> 8 * byte & 15];
    }
  }
  return text;
}

}  // namespace fovea
