// SPDX-License-Identifier: Apache-2.0
// Append cases: a short description becomes a poisoned cache, tokens and slots, and a check of every byte of the cache.
#pragma once

#include <string>
#include <vector>

#include "fovea/fovea.hpp"
#include "oracle/kv64.h"
#include "support/kv_cache.h"
#include "support/random.h"
#include "support/tensors.h"

namespace fovea::test {

struct AppendCase {
  int64_t tokens = 9;
  int32_t dtype = FOVEA_F32;  // of k and v
  KvSpec kv = {.lens = {40}, .heads = 2};
  int32_t q_heads = 0;  // 0: no q
  int32_t d_q = 0;      // 0: d_k
  int32_t q_dtype = FOVEA_F32;
  bool norm = false;
  bool with_rope = false;
  fovea_rope_config rope = {};
  int position_rows = 0;  // above 0: positions of rank 2
  int32_t index_dtype = FOVEA_I32;
  bool any_layout = false;
  Values values = Values::normal;
};

// A cache full of 0xFF but for the scales that are given, and tokens for slots in random order.
class AppendProblem {
 public:
  AppendProblem(const AppendCase& c, Rng& rng);
  AppendProblem(const AppendProblem&) = delete;
  AppendProblem& operator=(const AppendProblem&) = delete;

  AppendCase c;
  KvCache cache;
  TensorBox k, v, slots, q, q_out, q_weight, k_weight, positions;
  fovea_kv_append_params params;
  std::vector<std::byte> before;  // of the cache

  int64_t d_q() const { return c.d_q ? c.d_q : c.kv.d_k; }
  int64_t capacity() const { return cache.kv().pages * cache.kv().page_size; }
  int64_t at(int64_t token) const { return oracle::index_at(slots, token); }
  bool lands(int64_t token) const { return at(token) >= 0 && at(token) < capacity(); }
  oracle::Slot slot(int64_t token) const {
    return {at(token) / cache.kv().page_size, at(token) % cache.kv().page_size};
  }

  // Every element that must be in the cache, within its bound; then wipes them and demands that nothing else changed.
  void check();
  // Poisons what the tokens' slots hold.
  void wipe();

 private:
  void make_tokens(Rng& rng);
  void make_options(Rng& rng);
  void check_token(int64_t token, const double* k_want, const double* k_bound);
  void check_queries(const std::vector<double>& want, std::vector<double> bound);
  void wipe_side(const fovea_kv_side& side, oracle::Slot at, int64_t h, int64_t dims);
};

void check_append(const AppendCase& c, Rng& rng);

}  // namespace fovea::test
