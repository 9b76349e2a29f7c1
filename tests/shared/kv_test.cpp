// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "ops/kv.h"
#include "ops/view.h"
#include "shared/kv/cache.h"

namespace fovea {
namespace {

fovea_tensor index_tensor(std::vector<int32_t>& values, std::initializer_list<int64_t> shape) {
  fovea_tensor t;
  t.data = values.data();
  t.dtype = FOVEA_I32;
  t.rank = static_cast<int32_t>(shape.size());
  int i = 0;
  for (int64_t n : shape) t.shape[i++] = n;
  for (int64_t stride = 1; i > 0; stride *= t.shape[i]) t.stride[--i] = stride;
  return t;
}

// A bf16 cache of 4 pages of 3 tokens, 2 heads, d 8, [page, token, head, d].
fovea_kv plain_cache(char* base) {
  fovea_kv kv;
  kv.heads = 2;
  kv.d_k = kv.d_v = 8;
  kv.page_size = 3;
  kv.pages = 4;
  kv.k.codec = kv.v.codec = FOVEA_CODEC_BF16;
  kv.k.data = {base, 3 * 2 * 16, 2 * 16, 16};
  kv.v.data = {base + 4 * 3 * 2 * 16, 3 * 2 * 16, 2 * 16, 16};
  return kv;
}

TEST(Shard, CountsAndTokensAgreeWithTheDefinition) {
  for (int world : {1, 2, 3, 5}) {
    for (int interleave : {1, 2, 16}) {
      for (int rank = 0; rank < world; ++rank) {
        const Shard shard{.world = world, .rank = rank, .interleave = interleave};
        i64_t held = 0;
        for (i64_t t = 0; t < 200; ++t) {
          EXPECT_EQ(shard_count(shard, t), held);
          if ((t / interleave) % world != rank) continue;
          EXPECT_EQ(shard_token(shard, held), t);
          ++held;
        }
      }
    }
  }
}

TEST(KvAddress, FollowsTheFourLayouts) {
  std::vector<char> store(2 * 4 * 3 * 2 * 16);
  std::vector<int32_t> table = {3, 1, 0, 2}, indptr = {0, 1, 4}, lens = {6, 6}, cu = {0, 2, 9};
  fovea_kv kv = plain_cache(store.data());
  const Place cpu{FOVEA_CPU, 0};
  const auto bound = [&](KvView& view) {
    KvSpec spec;
    EXPECT_TRUE(check_kv_store("kv", &kv, spec).ok());
    const Status status = check_kv_sequences("kv", kv, 2, cpu, spec);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(bind_kv_store("kv", kv, spec, view).ok());
    EXPECT_TRUE(bind_kv_sequences("kv", kv, view).ok());
  };
  const auto offset = [&](const KvView& view, i64_t b, i64_t t, i64_t head) {
    return kv_address(view.k, kv_locate(view, view.page_table, b, t), head) - store.data();
  };
  kv.kv_lens = index_tensor(lens, {2});
  KvView contiguous;
  bound(contiguous);
  EXPECT_EQ(offset(contiguous, 1, 2, 1), 1 * 96 + 2 * 32 + 16);
  EXPECT_EQ(kv_capacity(contiguous, 1), 3);

  kv.page_table = index_tensor(table, {2, 2});
  KvView paged;
  bound(paged);
  EXPECT_EQ(offset(paged, 0, 4, 1), 1 * 96 + 1 * 32 + 16);
  EXPECT_EQ(kv_capacity(paged, 0), 6);
  EXPECT_EQ(paged.spec.max_len, 6);

  std::vector<int32_t> own_table = {0, 2, 1, 3};
  kv.v_page_table = index_tensor(own_table, {2, 2});
  KvView two_tables;
  bound(two_tables);
  EXPECT_EQ(offset(two_tables, 0, 4, 1), 1 * 96 + 1 * 32 + 16);
  EXPECT_EQ(kv_locate(two_tables, kv_v_table(two_tables), 0, 4).page, 2);
  kv.v_page_table = {};

  kv.page_table = index_tensor(table, {4});
  kv.page_indptr = index_tensor(indptr, {3});
  KvView csr;
  bound(csr);
  EXPECT_EQ(offset(csr, 1, 7, 0), 2 * 96 + 1 * 32);
  EXPECT_EQ(kv_capacity(csr, 0), 3);
  EXPECT_EQ(kv_capacity(csr, 1), 9);

  kv = plain_cache(store.data());
  kv.pages = 1;
  kv.page_size = 12;
  kv.cu_seqlens_kv = index_tensor(cu, {3});
  KvView ragged;
  bound(ragged);
  EXPECT_EQ(offset(ragged, 1, 3, 1), 5 * 32 + 16);
  EXPECT_EQ(kv_len(ragged, 1), 7);
}

TEST(KvChecks, NameTheFieldAndItsValue) {
  const auto message = [](const auto& change) {
    std::vector<char> store(1);
    fovea_kv kv = plain_cache(store.data());
    change(kv);
    KvSpec spec;
    const Status status = check_kv_store("kv", &kv, spec);
    EXPECT_FALSE(status.ok());
    return status.message();
  };
  EXPECT_EQ(message([](fovea_kv& kv) { kv.page_size = 0; }), "kv.page_size is 0: must be at least 1 (tokens)");
  EXPECT_EQ(message([](fovea_kv& kv) { kv.k.data.token_stride = 33; }),
            "kv.k.data.token_stride is 33: must be a multiple of the element's 2 bytes");
  EXPECT_EQ(message([](fovea_kv& kv) { kv.v.codec = FOVEA_CODEC_FP8; }),
            "kv.v.scale_kind is none: codec fp8 needs a scale (a tensor scale of 1 is explicit)");
  EXPECT_EQ(message([](fovea_kv& kv) { kv.record_version = 2; }),
            "kv.record_version is 2: must be 0 or 1: records of other versions cannot be read");
  EXPECT_EQ(message([](fovea_kv& kv) { kv.record_version = 1; }),
            "kv.page_size is 3: must be 16, 32, 64 or 128 in records");
  EXPECT_EQ(message([](fovea_kv& kv) { kv.prescale = 2; }), "kv.prescale is 2: only codecs i8 to q2 have it");
  EXPECT_EQ(message([](fovea_kv& kv) { kv.v_in_k = 1; }), "kv.v.codec is 3: V is part of K (v_in_k)");
}

}  // namespace
}  // namespace fovea
