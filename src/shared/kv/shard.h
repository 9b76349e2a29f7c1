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

namespace detail {
FOVEA_COLD constexpr i64_t shard_count_of_many(i64_t world, i64_t rank, i64_t interleave, i64_t t) {
  const i64_t round = world * interleave;
  const i64_t rest = t % round - rank * interleave;
  const i64_t in_round = rest < 0 ? 0 : rest < interleave ? rest : interleave;
  return t / round * interleave + in_round;
}
FOVEA_COLD constexpr i64_t shard_token_of_many(i64_t world, i64_t rank, i64_t interleave, i64_t u) {
  const i64_t block = u / interleave;
  return (block * world + rank) * interleave + u % interleave;
}
}  // namespace detail

// How many of the tokens [0, t) this rank holds; also the local index of token t, or of the next one it holds.
constexpr i64_t shard_count(const Shard& s, i64_t t) {
  return s.world == 1 ? t : detail::shard_count_of_many(s.world, s.rank, s.interleave, t);
}

// The token that local index u stands for.
constexpr i64_t shard_token(const Shard& s, i64_t u) {
  return s.world == 1 ? u : detail::shard_token_of_many(s.world, s.rank, s.interleave, u);
}

}  // namespace fovea
