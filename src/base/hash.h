// SPDX-License-Identifier: Apache-2.0
// SipHash-2-4 with a 128-bit result (Aumasson and Bernstein, 2012): keys of compiled kernels and checksums of files.
// The same bits on every machine. Not a signature: it finds damage and change, not forgery.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>

namespace fovea {

struct Hash128 {
  uint64_t low = 0;
  uint64_t high = 0;
  bool operator==(const Hash128&) const = default;
  bool operator<(const Hash128& other) const { return std::tie(low, high) < std::tie(other.low, other.high); }
};

std::string hex(const Hash128& hash);  // 32 digits, bytes in the order of the algorithm's output

class Hasher {
 public:
  explicit Hasher(uint64_t key_low = 0, uint64_t key_high = 0);
  void bytes(const void* data, size_t size);
  // Each of these writes its own length or a fixed width, so that a sequence of them is read in one way only.
  void text(std::string_view text);
  void number(uint64_t value);
  void hash(const Hash128& value);
  Hash128 finish() const;

 private:
  void word(uint64_t m);

  uint64_t v_[4];
  uint64_t tail_ = 0;  // bytes that do not fill a word yet, the first one lowest
  uint64_t size_ = 0;  // bytes so far
};

Hash128 hash_bytes(const void* data, size_t size);

}  // namespace fovea
