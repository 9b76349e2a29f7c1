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

// The draw of a token: uniform in [0, 1) in steps of 2^-32. The upper words of the counter are left to other draws of
// the same position.
constexpr double philox_uniform(u64_t seed, u64_t position) {
  const PhiloxBlock counter = {{static_cast<u32_t>(position), static_cast<u32_t>(position >> 32), 0, 0}};
  const PhiloxBlock r = philox4x32(counter, static_cast<u32_t>(seed), static_cast<u32_t>(seed >> 32));
  return r.words[0] * 0x1p-32;
}

}  // namespace fovea
