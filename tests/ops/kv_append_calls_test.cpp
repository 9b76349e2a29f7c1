// SPDX-License-Identifier: Apache-2.0
// What kv_append refuses and ignores, and what its plans serve.
#include <gtest/gtest.h>

#include <cmath>

#include "fovea/fovea.hpp"
#include "ops/kv_store.h"
#include "support/backends.h"
#include "support/tensors.h"

namespace {

using namespace fovea::test;
using fovea::KvAppendParams;
using fovea::RopeConfig;

const fovea::Context& context() {
  return backends()[0].context;
}

TEST(KvAppend, RefusesByName) {
  Rng rng = test_rng();
  Store store({}, rng);
  const Tokens tokens(store, {0, 1}, rng);
  Fused f = fuse(store, tokens, rng);
  f.params.rope = &f.rope;
  const auto message = [&](const auto& change) {
    KvAppendParams p = f.params;
    change(p);
    return run(context(), p).message;
  };
  using P = KvAppendParams;
  EXPECT_EQ(message([](P& p) { p.kv = nullptr; }), "kv is null: must point to its struct");
  EXPECT_EQ(message([](P& p) { p.k = {}; }), "k is absent: must be one of f32, f16, bf16");
  EXPECT_EQ(message([](P& p) { p.k.shape[1] = 1; }), "k.shape[1] is 1: must be 2 (kv.heads)");
  EXPECT_EQ(message([](P& p) { p.k.shape[2] = 32; }), "k.shape[2] is 32: must be 40 (kv.d_k)");
  EXPECT_EQ(message([](P& p) { p.v.shape[0] = 1; }), "v.shape[0] is 1: must be 2 (tokens)");
  EXPECT_EQ(message([](P& p) { p.v = {}; }), "v is absent: must be one of f32, f16, bf16");
  EXPECT_EQ(message([](P& p) { p.slot_mapping.shape[0] = 1; }), "slot_mapping.shape[0] is 1: must be 2 (tokens)");
  EXPECT_EQ(message([](P& p) { p.slot_mapping.dtype = FOVEA_F32; }), "slot_mapping is f32: must be one of i32, i64");
  EXPECT_EQ(message([](P& p) { p.q_out = {}; }), "q_out is absent: must be one of f32, f16, bf16");
  EXPECT_EQ(message([](P& p) { p.q_out.dtype = FOVEA_E4M3; }), "q_out is e4m3: must be one of f32, f16, bf16");
  EXPECT_EQ(message([](P& p) { p.q = {}; }), "q_out is given: needs q");
  EXPECT_EQ(message([](P& p) { p.q = p.q_out = {}; }), "q_norm_weight is given: needs q");
  EXPECT_EQ(message([](P& p) { p.q_norm_weight.shape[0] = 39; }), "q_norm_weight.shape[0] is 39: must be 40 (d_q)");
  EXPECT_EQ(message([](P& p) { p.k_norm_weight.shape[0] = 39; }), "k_norm_weight.shape[0] is 39: must be 40 (kv.d_k)");
  EXPECT_EQ(message([](P& p) { p.norm_eps = -1; }), "norm_eps is -1: must be finite and not negative");
  EXPECT_EQ(message([](P& p) { p.norm_weight_offset = NAN; }), "norm_weight_offset is nan: must be finite");
  EXPECT_EQ(message([](P& p) { p.q_norm_weight = p.k_norm_weight = {}; }), "norm_eps is 1e-05: needs a norm weight");
  EXPECT_EQ(message([](P& p) { p.rope = nullptr; }), "positions is given: needs rope");
  EXPECT_EQ(message([](P& p) { p.positions = {}; }), "positions is absent: must be one of i32, i64");
  EXPECT_EQ(message([](P& p) { p.slot_mapping.data = nullptr; }), "slot_mapping.data is null: a call needs its memory");
  EXPECT_EQ(message([&](P& p) {
              p.q_out = f.q;
              p.q_out.stride[0] *= 2, p.q_out.stride[1] *= 2;
            }),
            "q_out is q in another type or with other strides: in place it must be q itself");
  RopeConfig odd{.rotary_dim = 33};
  EXPECT_EQ(message([&](P& p) { p.rope = &odd; }), "rope.rotary_dim is 33: must be even and in [2, 40] (0 = all dims)");
  fovea::Kv kv = store.kv;
  kv.k.codec = FOVEA_CODEC_FP8;
  EXPECT_NE(message([&](P& p) { p.kv = &kv; }).find("kv.k.scale_kind is none: codec fp8 needs a scale"),
            std::string::npos);
  kv = store.kv;
  kv.v.scale_kind = FOVEA_SCALE_TOKEN_HEAD;
  kv.v.scale_dtype = FOVEA_F32;
  EXPECT_EQ(message([&](P& p) { p.kv = &kv; }),
            "kv.v.scale_kind is token_head: kv_append computes scales for codecs fp8 and i8 to q2, not for bf16");
  const TensorBox wide(FOVEA_F32, {2, 1, 1025});
  EXPECT_EQ(message([&](P& p) { p.q = p.q_out = wide; }), "q.shape[2] is 1025: must be 1 to 1024");
  f.positions.set(1, -1);
  EXPECT_EQ(message([](P&) {}), "positions[1] is -1: must be in [0, 2147483648)");
  expect_rest_untouched(store, {});
  for (std::byte b : f.q_out.bits()) ASSERT_EQ(b, std::byte{kPoison});
}

// What says which tokens belong to which sequence is not used, so nothing there is an error.
TEST(KvAppend, TablesLengthsAndShardsOfTheCacheAreIgnored) {
  Rng rng = test_rng();
  Store store({}, rng);
  const Tokens tokens(store, {0}, rng);
  store.kv.page_table = fovea::tensor(static_cast<const float*>(nullptr), {3, 3});
  store.kv.max_len = -4;
  store.kv.shard_world = 4;
  store.kv.shard_rank = 9;
  EXPECT_TRUE(run(context(), tokens.params(store)));
}

TEST(KvAppend, NoTokensAndNoPages) {
  Rng rng = test_rng();
  Store store({}, rng);
  const Tokens none(store, {}, rng);
  EXPECT_TRUE(run(context(), none.params(store)));
  Store empty({.pages = 0}, rng);
  const Tokens two(empty, {0, -1}, rng);
  uint32_t status = 0;
  EXPECT_TRUE(run(context(), two.params(empty), {.status = &status}));
  EXPECT_EQ(status, static_cast<uint32_t>(FOVEA_INVALID_VALUE));
}

TEST(KvAppend, APlanServesFewerTokensAndNothingElse) {
  Rng rng = test_rng();
  Store store({.k_codec = FOVEA_CODEC_FP8, .k_scale = FOVEA_SCALE_TOKEN_HEAD}, rng);
  const Tokens tokens(store, {0, 1, 2}, rng);
  Fused f = fuse(store, tokens, rng);
  f.params.rope = &f.rope;
  const auto plan = context().plan(f.params);
  EXPECT_EQ(
      plan.explain(),
      "kv_append: cpu_tokens, RMS norm of K and Q, RoPE NeoX over 40 dims, angles in f64, K rounded to bf16, K as "
      "fp8 with computed scales per token_head, V as bf16; one task per block of tokens, up to 3 tokens");
  plan.run(f.params);
  KvAppendParams fewer = f.params;
  for (fovea_tensor* t : {&fewer.k, &fewer.v, &fewer.q, &fewer.q_out, &fewer.slot_mapping, &fewer.positions}) {
    *t = slice(*t, 0, 0, 2);
  }
  EXPECT_TRUE(plan.try_run(fewer));
  EXPECT_EQ(context().plan(fewer).try_run(f.params).message, "k.shape[0] is 3: the plan was made for at most 2");
  RopeConfig other = f.rope;
  other.theta = 5e5;
  KvAppendParams changed = f.params;
  changed.rope = &other;
  EXPECT_EQ(plan.try_run(changed).message, "rope: differs from the one the plan was made for");
  changed = f.params;
  changed.q_norm_weight = {};
  EXPECT_EQ(plan.try_run(changed).code, FOVEA_INVALID_VALUE);
  StoreForm form = store.f;
  form.page_size = 8;
  Store paged(form, rng);
  changed = f.params;
  changed.kv = &paged.kv;
  EXPECT_EQ(plan.try_run(changed).message, "kv: differs from the cache the plan was made for");
}

}  // namespace
