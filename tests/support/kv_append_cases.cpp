// SPDX-License-Identifier: Apache-2.0
#include "support/kv_append_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "oracle/append64.h"
#include "oracle/numbers.h"
#include "support/backends.h"
#include "support/check.h"

namespace fovea::test {
namespace {

bool computed(const fovea_kv_side& side) {
  return side.scale_kind == FOVEA_SCALE_TOKEN_HEAD || side.scale_kind == FOVEA_SCALE_GROUP;
}

// A computed scale maps the largest element of what it covers to the largest number of the type.
void check_scale(const fovea_kv_side& side, oracle::Slot slot, int64_t h, const double* want, int64_t dims) {
  const int64_t covers = side.scale_kind == FOVEA_SCALE_GROUP ? side.scale_group : dims;
  for (int64_t first = 0; first < dims; first += covers) {
    double most = 0;
    for (int64_t d = first; d < std::min(first + covers, dims); ++d) most = std::max(most, std::fabs(want[d]));
    const double scale = oracle::decode(side.scale_dtype, oracle::scale_address(side, slot, h, first));
    const double ideal = most / oracle::largest(oracle::codec_dtype(side.codec));
    EXPECT_LE(std::fabs(scale - ideal), 0x1p-6 * ideal + oracle::ulp(side.scale_dtype, ideal));
    EXPECT_EQ(scale == 0, most == 0);
  }
}

void check_side(const fovea_kv_side& side, oracle::Slot slot, int64_t h, const double* want, const double* bound,
                int64_t dims) {
  const int32_t dtype = oracle::codec_dtype(side.codec);
  for (int64_t d = 0; d < dims && !::testing::Test::HasFailure(); ++d) {
    const double got = oracle::side_at(side, slot, h, d);
    const double scale =
        side.scale_kind ? oracle::decode(side.scale_dtype, oracle::scale_address(side, slot, h, d)) : 1;
    double x = want[d];
    if (dtype == FOVEA_E4M3) x = std::clamp(x, -448 * scale, 448 * scale);
    // The quotient by a scale is rounded once in fp32 before the cast.
    const double quotient = scale == 0 ? 0 : x / scale;
    const double cast = (0.5 * oracle::ulp(dtype, quotient) + std::fabs(quotient) * 0x1p-23) * scale;
    const bool exact = side.scale_kind == FOVEA_SCALE_NONE && bound[d] == 0 && oracle::round_to(dtype, x) == x;
    EXPECT_LE(std::fabs(got - x), exact ? 0 : bound[d] + cast)
        << "dim " << d << ": got " << got << ", want " << x << ", scale " << scale;
  }
  if (computed(side)) check_scale(side, slot, h, want, dims);
}

}  // namespace

AppendProblem::AppendProblem(const AppendCase& c_, Rng& rng)
    : c(c_), cache(c.kv, rng, [](int64_t, int64_t) { return false; }) {
  make_tokens(rng);
  make_options(rng);
  params.kv = &cache.kv();
  before = cache.bytes();
}

void AppendProblem::make_tokens(Rng& rng) {
  const auto layout = [&] { return c.any_layout ? random_layout(rng, 3) : Layout{}; };
  const KvSpec& s = c.kv;
  k = TensorBox(c.dtype, {c.tokens, s.heads, s.d_k}, layout());
  k.assign(draw(rng, c.values, c.tokens * s.heads, s.d_k));
  params.k = k;
  if (!s.v_in_k) {
    v = TensorBox(c.dtype, {c.tokens, s.heads, s.d_v}, layout());
    v.assign(draw(rng, c.values, c.tokens * s.heads, s.d_v));
  }
  params.v = v;
  slots = indices(rng.distinct(c.tokens, capacity()), c.index_dtype);
  params.slot_mapping = slots;
  if (!c.q_heads) return;
  q = TensorBox(c.q_dtype, {c.tokens, c.q_heads, d_q()}, layout());
  q.assign(draw(rng, c.values, c.tokens * c.q_heads, d_q()));
  q_out = TensorBox(c.q_dtype, {c.tokens, c.q_heads, d_q()}, layout());
  params.q = q;
  params.q_out = q_out;
}

void AppendProblem::make_options(Rng& rng) {
  if (c.norm) {
    k_weight = floats(draw(rng, Values::normal, 1, c.kv.d_k - c.kv.d_rope), FOVEA_F32);
    params.k_norm_weight = k_weight;
    if (c.q_heads) q_weight = floats(draw(rng, Values::normal, 1, d_q() - c.kv.d_rope), FOVEA_BF16);
    params.q_norm_weight = q_weight;
    params.norm_weight_offset = 1;
  }
  if (!c.with_rope) return;
  const int64_t rows = std::max(c.position_rows, 1);
  std::vector<int64_t> places;
  for (int64_t i = 0; i < rows * c.tokens; ++i) {
    places.push_back(rng.pick<int64_t>({0, 1, 17, rng.integer(0, 5000), 131071}));
  }
  using Shape = std::vector<int64_t>;
  positions = indices(places, c.index_dtype, c.position_rows ? Shape{rows, c.tokens} : Shape{c.tokens});
  params.positions = positions;
  params.rope = &c.rope;
}

void AppendProblem::check_token(int64_t token, const double* k_want, const double* k_bound) {
  const fovea_kv& kv = cache.kv();
  const int64_t main = kv.d_k - kv.d_rope;
  for (int64_t h = 0; h < kv.heads; ++h, k_want += kv.d_k, k_bound += kv.d_k) {
    check_side(kv.k, slot(token), h, k_want, k_bound, main);
    for (int64_t d = main; d < kv.d_k; ++d) {
      const double got = oracle::k_at(kv, slot(token), h, d);
      EXPECT_LE(std::fabs(got - k_want[d]), k_bound[d] + 0.5 * oracle::ulp(kv.rope_dtype, k_want[d]));
    }
    if (kv.v_in_k) continue;
    std::vector<double> x;
    const std::vector<double> none(static_cast<size_t>(kv.d_v), 0.0);
    for (int64_t d = 0; d < kv.d_v; ++d) x.push_back(v.get((token * kv.heads + h) * kv.d_v + d));
    check_side(kv.v, slot(token), h, x.data(), none.data(), kv.d_v);
  }
}

void AppendProblem::check_queries(const std::vector<double>& want, std::vector<double> bound) {
  const bool changed = c.with_rope || c.norm;
  for (size_t i = 0; i < bound.size() && changed; ++i) {
    bound[i] += 0.5 * oracle::ulp(c.q_dtype, std::fabs(want[i]) + bound[i]);
  }
  EXPECT_TRUE(within(q_out, want, bound));
  EXPECT_TRUE(q_out.outside_untouched());
}

void AppendProblem::check() {
  const oracle::Append64 want = oracle::append64(params);
  const int64_t per_token = int64_t{c.kv.heads} * c.kv.d_k;
  for (int64_t i = 0; i < c.tokens && !::testing::Test::HasFailure(); ++i) {
    if (lands(i)) check_token(i, want.k.data() + i * per_token, want.k_bound.data() + i * per_token);
  }
  if (c.q_heads) check_queries(want.q, want.q_bound);
  wipe();
  EXPECT_EQ(cache.bytes(), before) << "bytes of the cache changed that belong to no token";
}

void AppendProblem::wipe_side(const fovea_kv_side& side, oracle::Slot at, int64_t h, int64_t dims) {
  const int64_t bytes = oracle::bytes_of(oracle::codec_dtype(side.codec));
  std::memset(oracle::kv_address(side.data, at, h), kPoison, static_cast<size_t>(dims * bytes));
  for (int64_t d = 0; d < dims && computed(side); ++d) {
    const auto scale_bytes = static_cast<size_t>(oracle::bytes_of(side.scale_dtype));
    std::memset(oracle::scale_address(side, at, h, d), kPoison, scale_bytes);
  }
}

void AppendProblem::wipe() {
  const fovea_kv& kv = cache.kv();
  for (int64_t i = 0; i < c.tokens; ++i) {
    for (int64_t h = 0; h < kv.heads && lands(i); ++h) {
      wipe_side(kv.k, slot(i), h, kv.d_k - kv.d_rope);
      if (!kv.v_in_k) wipe_side(kv.v, slot(i), h, kv.d_v);
      if (!kv.d_rope) continue;
      const auto bytes = static_cast<size_t>(kv.d_rope * oracle::bytes_of(kv.rope_dtype));
      std::memset(oracle::kv_address(kv.k_rope, slot(i), h), kPoison, bytes);
    }
  }
}

void check_append(const AppendCase& c, Rng& rng) {
  SCOPED_TRACE(std::string(name_of(c.kv.layout)) + " " + fovea_dtype_name(c.dtype) + " into " +
               fovea_codec_name(c.kv.k.codec) + "/" + fovea_scale_kind_name(c.kv.k.scale_kind) + ", d " +
               std::to_string(c.kv.d_k) + "; " + seed_note());
  AppendProblem problem(c, rng);
  for (const Backend& backend : backends(FOVEA_OP_KV_APPEND)) {
    SCOPED_TRACE(backend.name);
    problem.q_out.memory().fill(kPoison);
    RUN_OR_CONTINUE(run(backend, problem.params));
    problem.check();  // and wipes
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace fovea::test
