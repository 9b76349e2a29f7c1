// SPDX-License-Identifier: Apache-2.0
// kv_append and kv_copy of quantised K and V: the bytes of the rule, and no others.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "shared/kv/encode.h"
#include "shared/kv/planes.h"
#include "shared/kv/rotation.h"
#include "support/backends.h"
#include "support/kv_append_cases.h"

namespace fovea::test {
namespace {

constexpr int32_t kGrids[] = {FOVEA_CODEC_I8, FOVEA_CODEC_Q6, FOVEA_CODEC_Q5,
                              FOVEA_CODEC_Q4, FOVEA_CODEC_Q3, FOVEA_CODEC_Q2};

AppendCase grid_case(int32_t k, int32_t v, int32_t d) {
  AppendCase c;
  c.dtype = FOVEA_BF16;
  c.kv.k = {k, FOVEA_SCALE_TOKEN_HEAD, FOVEA_F16, 0};
  c.kv.v = {v, FOVEA_SCALE_TOKEN_HEAD, FOVEA_F32, 0};
  c.kv.d_k = c.kv.d_v = d;
  c.kv.prescale = 0.5f;
  return c;
}

Grid grid(int32_t codec) {
  return static_cast<Grid>(codec - FOVEA_CODEC_I8);
}

// The row of one vector as the scalar rule gives it: planes and scale.
void expect_row(const fovea_kv& kv, const fovea_kv_side& side, oracle::Slot slot, int64_t head, std::vector<float> x) {
  const int d = static_cast<int>(x.size());
  rotate(*find_rotation(d), x.data());
  std::vector<u8_t> codes(x.size());
  bool finite = true;
  const float scale = encode_vector(grid(side.codec), x.data(), d, codes.data(), finite);
  u8_t low[kMostRotatedDim], high[kMostRotatedDim];
  pack_codes(grid(side.codec), codes.data(), d, {{low, high}});
  for (int plane = 0; plane < 2; ++plane) {
    const auto bytes = static_cast<size_t>(oracle::plane_bytes(side.codec, plane, d));
    EXPECT_EQ(std::memcmp(oracle::plane_row(kv, side, slot, head, plane, d), plane ? high : low, bytes), 0)
        << fovea_codec_name(side.codec) << ", d " << d << ", plane " << plane;
  }
  const std::byte* at = oracle::kv_address(side.scale, slot, head);
  if (side.scale_dtype == FOVEA_F16) {
    u16_t bits;
    std::memcpy(&bits, at, 2);
    EXPECT_EQ(bits, stored_scale(scale, kv.prescale));
  } else {
    float value;
    std::memcpy(&value, at, 4);
    EXPECT_EQ(value, stored_scale_f32(scale, kv.prescale));
  }
}

void wipe_row(const fovea_kv& kv, const fovea_kv_side& side, oracle::Slot slot, int64_t head, int64_t d) {
  for (int plane = 0; plane < 2; ++plane) {
    std::memset(oracle::plane_row(kv, side, slot, head, plane, d), kPoison,
                static_cast<size_t>(oracle::plane_bytes(side.codec, plane, d)));
  }
  std::memset(oracle::kv_address(side.scale, slot, head), kPoison, side.scale_dtype == FOVEA_F16 ? 2 : 4);
}

std::vector<float> vector_of(const TensorBox& t, int64_t row, int64_t d) {
  std::vector<float> x;
  for (int64_t i = 0; i < d; ++i) x.push_back(static_cast<float>(t.get(row * d + i)));
  return x;
}

TEST(KvAppendGrids, BytesAreThoseOfTheRuleAndNoOthers) {
  Rng rng = test_rng();
  for (const int32_t k : kGrids) {
    for (const int32_t d : {32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 512}) {
      for (const int32_t page : {16, 64}) {
        AppendCase c = grid_case(k, kGrids[static_cast<size_t>(d / 16 + page) % 6], d);
        c.kv.page_size = page;
        AppendProblem problem(c, rng);
        const fovea_kv& kv = problem.cache.kv();
        for (const Backend& backend : backends(FOVEA_OP_KV_APPEND)) {
          SCOPED_TRACE(backend.name);
          const Outcome r = run(backend, problem.params);
          if (r.refused) continue;
          ASSERT_EQ(r.code, FOVEA_OK) << r.message;
          for (int64_t t = 0; t < c.tokens; ++t) {
            for (int64_t h = 0; h < kv.heads; ++h) {
              expect_row(kv, kv.k, problem.slot(t), h, vector_of(problem.k, t * kv.heads + h, d));
              expect_row(kv, kv.v, problem.slot(t), h, vector_of(problem.v, t * kv.heads + h, d));
              wipe_row(kv, kv.k, problem.slot(t), h, d);
              wipe_row(kv, kv.v, problem.slot(t), h, d);
            }
          }
          ASSERT_EQ(problem.cache.bytes(), problem.before) << "bytes of the cache changed that belong to no token";
        }
      }
    }
  }
}

// Norm and rope come first, and what they give is rounded to the type of K.
TEST(KvAppendGrids, KeysAreRoundedBeforeTheyAreEncoded) {
  Rng rng = test_rng();
  AppendCase c = grid_case(FOVEA_CODEC_Q6, FOVEA_CODEC_Q4, 64);
  c.q_heads = 4;
  c.norm = c.with_rope = true;
  c.rope.rotary_dim = 64;
  AppendProblem coded(c, rng);
  AppendCase plain = c;
  plain.kv.k = plain.kv.v = {FOVEA_CODEC_BF16, FOVEA_SCALE_NONE, FOVEA_F32, 0};
  plain.kv.prescale = 1;
  AppendProblem rounded(plain, rng);
  rounded.params = coded.params;
  rounded.params.kv = &rounded.cache.kv();
  for (const Backend& backend : backends()) {
    SCOPED_TRACE(backend.name);
    ASSERT_EQ(run(backend, coded.params).code, FOVEA_OK);
    ASSERT_EQ(run(backend, rounded.params).code, FOVEA_OK);
    for (int64_t t = 0; t < c.tokens; ++t) {
      for (int64_t h = 0; h < c.kv.heads; ++h) {
        std::vector<float> k;
        for (int64_t i = 0; i < 64; ++i) {
          k.push_back(static_cast<float>(oracle::k_at(rounded.cache.kv(), coded.slot(t), h, i)));
        }
        expect_row(coded.cache.kv(), coded.cache.kv().k, coded.slot(t), h, k);
      }
    }
  }
}

// In one call or token by token.
TEST(KvAppendGrids, ChunksChangeNoByte) {
  Rng rng = test_rng();
  const AppendCase c = grid_case(FOVEA_CODEC_Q5, FOVEA_CODEC_Q3, 128);
  AppendProblem problem(c, rng);
  for (const Backend& backend : backends()) {
    ASSERT_EQ(run(backend, problem.params).code, FOVEA_OK);
    const std::vector<std::byte> whole = problem.cache.bytes();
    fovea_kv_append_params one = problem.params;
    for (int64_t t = 0; t < c.tokens; ++t) {
      for (fovea_tensor* x : {&one.k, &one.v, &one.slot_mapping}) {
        const fovea_tensor& from = x == &one.k   ? problem.params.k
                                   : x == &one.v ? problem.params.v
                                                 : problem.params.slot_mapping;
        *x = slice(from, 0, t, t + 1);
      }
      ASSERT_EQ(run(backend, one).code, FOVEA_OK);
    }
    EXPECT_EQ(problem.cache.bytes(), whole);
  }
}

TEST(KvAppendGrids, VectorsThatAreNotFiniteAreCountedAndStoredAsZeros) {
  Rng rng = test_rng();
  const AppendCase c = grid_case(FOVEA_CODEC_Q4, FOVEA_CODEC_I8, 64);
  for (const double bad : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    AppendProblem problem(c, rng);
    problem.k.set(5, bad);
    problem.v.set(64 + 3, bad);
    const fovea_kv& kv = problem.cache.kv();
    for (const Backend& backend : backends()) {
      uint32_t status = FOVEA_OK;
      kv_append(backend.context, problem.params, {.status = &status});
      EXPECT_NE(status, static_cast<uint32_t>(FOVEA_OK));
      for (const double x : oracle::vector_at(kv, kv.k, problem.slot(0), 0, 64)) EXPECT_EQ(x, 0);
      for (const double x : oracle::vector_at(kv, kv.v, problem.slot(0), 1, 64)) EXPECT_EQ(x, 0);
      EXPECT_NE(oracle::vector_at(kv, kv.k, problem.slot(0), 1, 64)[0], 0);
    }
  }
}

// Bytes of planes and scale.
std::vector<std::byte> row_of(const fovea_kv& kv, const fovea_kv_side& side, oracle::Slot slot, int64_t head,
                              int64_t d) {
  std::vector<std::byte> row;
  for (int plane = 0; plane < 2; ++plane) {
    const std::byte* at = oracle::plane_row(kv, side, slot, head, plane, d);
    row.insert(row.end(), at, at + oracle::plane_bytes(side.codec, plane, d));
  }
  const std::byte* scale = oracle::kv_address(side.scale, slot, head);
  row.insert(row.end(), scale, scale + (side.scale_dtype == FOVEA_F16 ? 2 : 4));
  return row;
}

// A record moves as a whole: planes and scales, and the bytes of no other page.
TEST(KvCopyGrids, PagesAreCopiedWithTheirPlanesAndScales) {
  Rng rng = test_rng();
  for (const int32_t codec : kGrids) {
    for (const int32_t page : {16, 64}) {
      AppendCase c = grid_case(codec, kGrids[static_cast<size_t>(codec) % 6], 80);
      c.kv.page_size = page;
      c.kv.lens = {6 * page};
      AppendProblem problem(c, rng);
      const fovea_kv& kv = problem.cache.kv();
      std::vector<std::byte*> records;
      for (int64_t p = 0; p < kv.pages; ++p) records.push_back(oracle::kv_address(kv.k.data, {p, 0}, 0));
      const auto bytes = static_cast<size_t>(kv.k.data.page_stride);
      for (size_t p = 0; p < records.size(); ++p) {
        for (size_t i = 0; i < bytes; ++i) records[p][i] = static_cast<std::byte>(rng.bits());
      }
      const TensorBox copies = indices({1, 4, 0, 2}, FOVEA_I32, {2, 2});
      const fovea_kv_copy_params params = [&] {
        fovea_kv_copy_params q;
        fovea_kv_copy_params_init(&q);
        q.src = q.dst = &kv;
        q.copies = copies;
        return q;
      }();
      const std::vector<std::byte> before = problem.cache.bytes();
      for (const Backend& backend : backends()) {
        ASSERT_EQ(run(backend, params).code, FOVEA_OK);
        for (int64_t h = 0; h < kv.heads; ++h) {
          for (int64_t t = 0; t < page; ++t) {
            for (const auto& [from, to] : {std::pair{1, 4}, {0, 2}}) {
              for (const fovea_kv_side* side : {&kv.k, &kv.v}) {
                EXPECT_EQ(row_of(kv, *side, {from, t}, h, 80), row_of(kv, *side, {to, t}, h, 80));
              }
            }
          }
        }
        const std::vector<std::byte> after = problem.cache.bytes();
        for (size_t i = 0; i < after.size(); ++i) {
          const size_t of = i / bytes;
          if (of == 4 || of == 2) continue;
          ASSERT_EQ(after[i], before[i]) << "page " << of;
        }
      }
    }
  }
}

}  // namespace
}  // namespace fovea::test
