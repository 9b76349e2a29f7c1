// SPDX-License-Identifier: Apache-2.0
// Which tokens of a sequence one rank holds: t with (t / interleave) % world == rank, packed in order. Freestanding.
#pragma once

#include "shared/convert.h"

namespace fovea {

struct Shard {
  int world = 1;
  int rank = 0;
  int interleave = 1;  // tokens
  bool operator==(const Shard&) const = default;
};

// How many of the tokens [0, t) this rank holds; also the local index of token t, or of the next one it holds.
constexpr i64_t shard_count(const Shard& s, i64_t t) {
  if (s.world == 1) return t;
  const i64_t round = static_cast<i64_t>(s.world) * s.interleave;
  const i64_t rest = t % round - static_cast<i64_t>(s.rank) * s.interleave;
  const i64_t in_round = rest < 0 ? 0 : rest < s.interleave ? rest : s.interleave;
  return t / round * s.interleave + in_round;
}

// The token that local index u stands for.
constexpr i64_t shard_token(const Shard& s, i64_t u) {
  if (s.world == 1) return u;
  const i64_t block = u / s.interleave;
  return (block * s.world + s.rank) * s.interleave + u % s.interleave;
}

}  // namespace fovea
