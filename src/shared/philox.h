// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011): four random words
// from a counter and a key, without state. Freestanding.
#pragma once

#include "shared/convert.h"

namespace fovea {

struct PhiloxBlock {
  u32_t words[4];
};

constexpr PhiloxBlock philox4x32(PhiloxBlock counter, u32_t key0, u32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const u64_t a = u64_t{0xD2511F53u} * counter.words[0], b = u64_t{0xCD9E8D57u} * counter.words[2];
    counter = {{static_cast<u32_t>(b >> 32) ^ counter.words[1] ^ key0, static_cast<u32_t>(b),
                static_cast<u32_t>(a >> 32) ^ counter.words[3] ^ key1, static_cast<u32_t>(a)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

// Uniform in [0, 1) in steps of 2^-32. Streams are independent draws of one position.
constexpr double philox_uniform(u64_t seed, u64_t position, u32_t stream = 0) {
  const PhiloxBlock counter = {{static_cast<u32_t>(position), static_cast<u32_t>(position >> 32), stream, 0}};
  const PhiloxBlock r = philox4x32(counter, static_cast<u32_t>(seed), static_cast<u32_t>(seed >> 32));
  return r.words[0] * 0x1p-32;
}

// The streams of a position. Drafts are often drawn by `sample` with the seed and position of the token they stand for:
// what decides about them must be independent of that, so verify has streams of its own.
inline constexpr u32_t kSampleStream = 0;
inline constexpr u32_t kVerifyStream = 1;       // the token that verify draws
constexpr u32_t verify_stream(i64_t sibling) {  // whether draft number `sibling` of a position holds
  return static_cast<u32_t>(2 + sibling);
}

}  // namespace fovea
