// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "fovea/fovea.hpp"
#include "ops/kv_store.h"
#include "support/backends.h"
#include "support/tensors.h"

namespace {

using namespace fovea::test;
using fovea::KvCopyParams;
using fovea::Result;

const fovea::Context& context() {
  return backends()[0].context;
}

// Every byte of every stream of a page, in an order of its own.
std::vector<std::byte> page_bits(const Store& store, int64_t page) {
  std::vector<std::byte> all;
  for (const TensorBox* t : store.tensors()) {
    if (t->view().shape[0] != store.f.pages) continue;  // given scales belong to no page
    const std::vector<std::byte> bits = t->bits();
    const auto size = static_cast<std::ptrdiff_t>(bits.size()) / store.f.pages;
    all.insert(all.end(), bits.begin() + page * size, bits.begin() + (page + 1) * size);
  }
  return all;
}

void scribble(const Store& store, Rng& rng) {
  for (const TensorBox* t : store.tensors()) {
    for (int64_t i = 0; i < t->size(); ++i) {
      const uint64_t bits = rng.bits();
      std::memcpy(t->at(i), &bits, static_cast<size_t>(fovea_dtype_bytes(t->view().dtype, 1)));
    }
  }
}

const StoreForm kForms[] = {
    {.k_codec = FOVEA_CODEC_F32, .v_codec = FOVEA_CODEC_F16},
    {.k_codec = FOVEA_CODEC_FP8,
     .v_codec = FOVEA_CODEC_FP8,
     .k_scale = FOVEA_SCALE_TOKEN_HEAD,
     .v_scale = FOVEA_SCALE_GROUP,
     .scale_dtype = FOVEA_F16,
     .group = 7},
    {.k_codec = FOVEA_CODEC_FP8, .v_codec = FOVEA_CODEC_BF16, .k_scale = FOVEA_SCALE_HEAD, .page_size = 1},
    {.k_codec = FOVEA_CODEC_FP8,
     .k_scale = FOVEA_SCALE_GROUP,
     .heads = 1,
     .page_size = 16,
     .d_rope = 8,
     .v_in_k = true},
};

TEST(KvCopy, CopiesEveryStreamBetweenAnyTwoLayouts) {
  for (const StoreForm& form : kForms) {
    for (uint64_t salt = 0; salt < 12; ++salt) {
      for (int32_t index : {FOVEA_I32, FOVEA_I64}) {
        SCOPED_TRACE("salt " + std::to_string(salt) + " " + seed_note());
        Rng rng = test_rng(salt);
        StoreForm larger = form;
        larger.pages = 9;
        Store src(form, rng), dst(larger, rng);
        scribble(src, rng);
        const std::vector<int64_t> pairs = {4, 0, 1, 8, 4, 3};  // a source may be read twice
        const TensorBox copies = indices(pairs, index, {3, 2}, {.pad = {0, rng.integer(0, 2)}});
        const Result result = run(context(), KvCopyParams{.src = &src.kv, .dst = &dst.kv, .copies = copies});
        ASSERT_TRUE(result) << result.message;
        EXPECT_EQ(page_bits(dst, 0), page_bits(src, 4));
        EXPECT_EQ(page_bits(dst, 8), page_bits(src, 1));
        EXPECT_EQ(page_bits(dst, 3), page_bits(src, 4));
        for (int64_t page : {1, 2, 4, 5, 6, 7}) {
          for (std::byte b : page_bits(dst, page)) ASSERT_EQ(b, std::byte{kPoison}) << "page " << page;
        }
        EXPECT_TRUE(dst.outside_untouched());
      }
    }
  }
}

TEST(KvCopy, WithinOneCacheOnAnyNumberOfThreads) {
  for (int32_t threads : {1, 2, 4}) {
    const fovea::Context c = cpu_context(threads);
    Rng rng = test_rng();
    StoreForm form = kForms[1];
    form.pages = 40;
    Store store(form, rng);
    scribble(store, rng);
    std::vector<int64_t> pairs;
    std::vector<std::vector<std::byte>> want;
    for (int64_t page = 0; page < 40; ++page) want.push_back(page_bits(store, page));
    for (int64_t page = 0; page < 20; ++page) {
      pairs.insert(pairs.end(), {page / 2, 39 - page});
      want[static_cast<size_t>(39 - page)] = want[static_cast<size_t>(page / 2)];
    }
    pairs.insert(pairs.begin() + 6, {19, 19});  // to itself: nothing to do
    const TensorBox copies = indices(pairs, FOVEA_I32, {21, 2});
    const Result result = run(c, KvCopyParams{.src = &store.kv, .dst = &store.kv, .copies = copies});
    ASSERT_TRUE(result) << result.message;
    for (int64_t page = 0; page < 40; ++page) ASSERT_EQ(page_bits(store, page), want[static_cast<size_t>(page)]);
  }
}

TEST(KvCopy, BadIdsAndOverlapsAreRefusedBeforeAnythingIsWritten) {
  Rng rng = test_rng();
  Store store(kForms[0], rng), other(kForms[0], rng);
  scribble(store, rng);
  const std::vector<std::byte> before = store.bits();
  const auto message = [&](const std::vector<int64_t>& pairs, const Store& dst) {
    const TensorBox copies = indices(pairs, FOVEA_I64, {static_cast<int64_t>(pairs.size() / 2), 2});
    return run(context(), KvCopyParams{.src = &store.kv, .dst = &dst.kv, .copies = copies}).message;
  };
  EXPECT_EQ(message({0, 1, 5, 2}, store), "copies[1][0] is 5: must be in [0, 5) (src.pages)");
  EXPECT_EQ(message({0, 1, 3, -1}, store), "copies[1][1] is -1: must be in [0, 5) (dst.pages)");
  EXPECT_EQ(message({0, int64_t{1} << 40}, store), "copies[0][1] is 1099511627776: must be in [0, 5) (dst.pages)");
  EXPECT_EQ(message({0, 2, 1, 2}, store),
            "copies[0][1] is 2: is also in copies[1]: no destination may be in another pair");
  EXPECT_EQ(message({0, 2, 2, 3}, store),
            "copies[1][0] is 2: is also in copies[0]: no destination may be in another pair");
  EXPECT_EQ(message({0, 2, 2, 2}, store),
            "copies[0][1] is 2: is also in copies[1]: no destination may be in another pair");
  EXPECT_EQ(store.bits(), before);
  EXPECT_EQ(message({0, 2, 1, 2}, other),
            "copies[0][1] is 2: is also in copies[1]: no destination may be in another pair");
  EXPECT_EQ(message({0, 2, 2, 3}, other), "") << "another cache: page 2 of one is not page 2 of the other";
}

TEST(KvCopy, ManyPairsUseScratchAndStillFindAnOverlap) {
  Rng rng = test_rng();
  StoreForm form{.pages = 1400, .heads = 1, .d_k = 2, .d_v = 2, .page_size = 1};
  Store store(form, rng);
  scribble(store, rng);
  std::vector<int64_t> pairs;
  const std::vector<int64_t> order = rng.distinct(1400, 1400);
  for (size_t i = 0; i < 700; ++i) pairs.insert(pairs.end(), {order[i], order[700 + i]});
  const TensorBox copies = indices(pairs, FOVEA_I32, {700, 2});
  const KvCopyParams params{.src = &store.kv, .dst = &store.kv, .copies = copies};
  ASSERT_TRUE(run(context(), params));
  for (size_t i = 0; i < 700; i += 37) EXPECT_EQ(page_bits(store, order[700 + i]), page_bits(store, order[i]));
  copies.set(699 * 2 + 1, static_cast<double>(order[3]));
  EXPECT_EQ(run(context(), params).message, "copies[3][0] is " + std::to_string(order[3]) +
                                                ": is also in copies[699]: no destination may be in another pair");
  const auto plan = context().plan(params);
  EXPECT_EQ(plan.try_run(params).message, "exec.scratch_bytes is 0: must be at least 5608");
}

TEST(KvCopy, CachesMustStoreTheSame) {
  Rng rng = test_rng();
  Store store(kForms[1], rng);
  const TensorBox copies = indices({0, 1}, FOVEA_I32, {1, 2});
  const auto message = [&](const auto& change) {
    fovea::Kv dst = store.kv;
    KvCopyParams p{.src = &store.kv, .dst = &dst, .copies = copies};
    change(p, dst);
    return run(context(), p).message;
  };
  using P = KvCopyParams;
  EXPECT_EQ(message([](P& p, fovea::Kv&) { p.src = nullptr; }), "src is null: must point to its struct");
  EXPECT_EQ(message([](P& p, fovea::Kv&) { p.dst = nullptr; }), "dst is null: must point to its struct");
  EXPECT_EQ(message([](P& p, fovea::Kv&) { p.copies.shape[1] = 1; }),
            "copies.shape[1] is 1: must be 2 (source and destination)");
  EXPECT_EQ(message([](P& p, fovea::Kv&) { p.copies.dtype = FOVEA_U64; }), "copies is u64: must be one of i32, i64");
  EXPECT_EQ(message([](P&, fovea::Kv& dst) { dst.heads = 1; }), "dst.heads is 1: must be 2 (src.heads)");
  EXPECT_EQ(message([](P&, fovea::Kv& dst) { dst.page_size = 2; }), "dst.page_size is 2: must be 4 (src.page_size)");
  EXPECT_EQ(message([](P&, fovea::Kv& dst) { dst.v.scale_group = 8; }),
            "dst.v is of another codec or scale kind, type or group: must be stored as src.v");
  EXPECT_EQ(message([](P&, fovea::Kv& dst) { dst.k.data.base = nullptr; }),
            "dst.k.data.base is null: a call needs its memory");
}

TEST(KvCopy, NothingToCopy) {
  Rng rng = test_rng();
  Store store({.pages = 0}, rng);
  const TensorBox copies = indices({}, FOVEA_I32, {0, 2});
  EXPECT_TRUE(run(context(), KvCopyParams{.src = &store.kv, .dst = &store.kv, .copies = copies}));
}

TEST(KvCopy, C01_PagesFartherApartThanTwoToThe31) {
  constexpr int64_t kPageStride = (int64_t{1} << 32) + 64;
  const Sparse memory(static_cast<size_t>(kPageStride * 3));
  fovea::Kv kv;
  kv.heads = 1;
  kv.d_k = kv.d_v = 16;
  kv.page_size = 2;
  kv.pages = 3;
  kv.k = {.codec = FOVEA_CODEC_BF16};
  kv.k.data = {memory.data(), kPageStride, 32, 0};
  kv.v = {.codec = FOVEA_CODEC_BF16};
  kv.v.data = {memory.data() + 64, kPageStride, 32, 0};
  for (int i = 0; i < 128; ++i) memory.data()[kPageStride * 2 + i] = static_cast<std::byte>(i + 1);
  const TensorBox copies = indices({2, 1}, FOVEA_I32, {1, 2});
  ASSERT_TRUE(run(context(), KvCopyParams{.src = &kv, .dst = &kv, .copies = copies}));
  EXPECT_EQ(std::memcmp(memory.data() + kPageStride, memory.data() + 2 * kPageStride, 128), 0);
  EXPECT_EQ(memory.data()[0], std::byte{0});
}

TEST(KvCopy, APlanServesFewerCopies) {
  Rng rng = test_rng();
  Store store(kForms[0], rng);
  scribble(store, rng);
  const TensorBox copies = indices({0, 1, 2, 3}, FOVEA_I32, {2, 2});
  KvCopyParams params{.src = &store.kv, .dst = &store.kv, .copies = copies};
  const auto plan = context().plan(params);
  EXPECT_EQ(plan.explain(), "kv_copy: cpu_pages, one task per page and stream, up to 2 pages of 4 tokens and 2 heads");
  KvCopyParams one = params;
  one.copies = slice(params.copies, 0, 1, 2);
  EXPECT_TRUE(plan.try_run(one));
  EXPECT_EQ(page_bits(store, 3), page_bits(store, 2));
  EXPECT_NE(page_bits(store, 1), page_bits(store, 0));
  EXPECT_EQ(context().plan(one).try_run(params).message, "copies.shape[0] is 2: the plan was made for at most 1");
}

}  // namespace
