// SPDX-License-Identifier: Apache-2.0
// kv_copy: whole pages with every stream, inside a cache and between caches of other strides.
#include <gtest/gtest.h>

#include <cstring>

#include "oracle/kv64.h"
#include "oracle/numbers.h"
#include "support/backends.h"
#include "support/check.h"
#include "support/kv_cache.h"
#include "support/tensors.h"

namespace fovea::test {
namespace {

bool everything(int64_t, int64_t) {
  return true;
}

// A cache of 8 pages, every token of it written. Page p of a sequence of one token a page is found by its slot.
struct Pages {
  KvCache cache;
  explicit Pages(const KvSpec& spec, Rng& rng) : cache(spec, rng, everything) {}
  void fill(Rng& rng) {
    const fovea_kv& kv = cache.kv();
    for (int64_t page = 0; page < kv.pages; ++page) {
      for (int64_t offset = 0; offset < kv.page_size; ++offset) {
        for (int64_t h = 0; h < kv.heads; ++h) {
          write_side(kv.k, {page, offset}, h, kv.d_k - kv.d_rope, rng);
          if (!kv.v_in_k) write_side(kv.v, {page, offset}, h, kv.d_v, rng);
          for (int64_t d = 0; d < kv.d_rope; ++d) {
            const int64_t bytes = oracle::bytes_of(kv.rope_dtype);
            oracle::encode(kv.rope_dtype, oracle::kv_address(kv.k_rope, {page, offset}, h) + d * bytes, rng.normal());
          }
        }
      }
    }
  }
  static void write_side(const fovea_kv_side& side, oracle::Slot slot, int64_t h, int64_t dims, Rng& rng) {
    const int32_t dtype = oracle::codec_dtype(side.codec);
    for (int64_t d = 0; d < dims; ++d) {
      oracle::encode(dtype, oracle::kv_address(side.data, slot, h) + d * oracle::bytes_of(dtype), rng.normal());
      if (side.scale_kind != FOVEA_SCALE_TOKEN_HEAD && side.scale_kind != FOVEA_SCALE_GROUP) continue;
      oracle::encode(side.scale_dtype, oracle::scale_address(side, slot, h, d), 0.5 + rng.uniform());
    }
  }
  // What a page is worth, decoded.
  std::vector<double> page(int64_t page) const {
    const fovea_kv& kv = cache.kv();
    std::vector<double> all;
    for (int64_t offset = 0; offset < kv.page_size; ++offset) {
      for (int64_t h = 0; h < kv.heads; ++h) {
        for (int64_t d = 0; d < kv.d_k; ++d) all.push_back(oracle::k_at(kv, {page, offset}, h, d));
        for (int64_t d = 0; d < kv.d_v; ++d) all.push_back(oracle::v_at(kv, {page, offset}, h, d));
      }
    }
    return all;
  }
};

// Copies by the definition, page after page, and demands that all others are as before.
void check_copy(const KvSpec& from, const KvSpec& to, bool same, int32_t index_dtype, Rng& rng) {
  Pages source(from, rng), other(to, rng);
  source.fill(rng);
  other.fill(rng);
  Pages& target = same ? source : other;
  if (!same && from.k.scale_kind != FOVEA_SCALE_NONE && from.k.scale_kind <= FOVEA_SCALE_HEAD) {
    // Codes mean the same only under the same given scales.
    const auto copy = [&](const fovea_kv_side& a, const fovea_kv_side& b) {
      for (int64_t h = 0; h < from.heads; ++h) {
        std::memcpy(oracle::scale_address(b, {0, 0}, h, 0), oracle::scale_address(a, {0, 0}, h, 0),
                    static_cast<size_t>(oracle::bytes_of(a.scale_dtype)));
      }
    };
    copy(source.cache.kv().k, target.cache.kv().k);
    if (!from.v_in_k) copy(source.cache.kv().v, target.cache.kv().v);
  }
  const std::vector<int64_t> ids = rng.distinct(6, source.cache.kv().pages);  // sources and destinations apart
  std::vector<int64_t> pairs = {ids[0], ids[1], ids[2], ids[3], ids[0], ids[4], ids[5], ids[5]};
  if (same) pairs.resize(6);  // a page onto itself only between two caches
  const auto n = static_cast<int64_t>(pairs.size()) / 2;
  const TensorBox copies = indices(pairs, index_dtype, {n, 2}, {.pad = {0, rng.integer(0, 1)}});
  std::vector<std::vector<double>> want;
  for (int64_t p = 0; p < target.cache.kv().pages; ++p) want.push_back(target.page(p));
  for (int64_t i = 0; i < n; ++i) {
    want[static_cast<size_t>(pairs[static_cast<size_t>(2 * i + 1)])] = source.page(pairs[static_cast<size_t>(2 * i)]);
  }
  const KvCopyParams params{.src = &source.cache.kv(), .dst = &target.cache.kv(), .copies = copies};
  for (const Backend& backend : backends(FOVEA_OP_KV_COPY)) {
    RUN_OR_CONTINUE(run(backend, params));
    for (int64_t p = 0; p < target.cache.kv().pages; ++p) {
      ASSERT_EQ(target.page(p), want[static_cast<size_t>(p)]) << backend.name << ", page " << p;
    }
  }
}

KvSpec eight_pages(KvLayout layout, SideSpec side) {
  return {.lens = {8 * 4},
          .heads = 2,
          .d_k = 32,
          .d_v = 32,
          .page_size = 4,
          .k = side,
          .v = side,
          .layout = layout,
          .spare_pages = 0,
          .page_pad = layout == KvLayout::halves ? 0 : 24 * 4};
}

TEST(KvCopy, EveryLayout) {
  Rng rng = test_rng();
  for (KvLayout from : kPlainLayouts) {
    for (KvLayout to : kPlainLayouts) {
      if (from == KvLayout::shared_heads || to == KvLayout::shared_heads) continue;
      if (from == KvLayout::one_pool || to == KvLayout::one_pool) continue;  // K and V share pages: below
      SCOPED_TRACE(std::string(name_of(from)) + " to " + name_of(to));
      const SideSpec bf16{FOVEA_CODEC_BF16, FOVEA_SCALE_NONE, 0, 0};
      check_copy(eight_pages(from, bf16), eight_pages(to, bf16), from == to, rng.pick({FOVEA_I32, FOVEA_I64}), rng);
      if (HasFailure()) return;
    }
  }
}

TEST(KvCopy, EveryCodecAndScaleKind) {
  Rng rng = test_rng();
  for (int32_t codec : {FOVEA_CODEC_F32, FOVEA_CODEC_F16, FOVEA_CODEC_BF16, FOVEA_CODEC_FP8}) {
    for (int32_t kind = FOVEA_SCALE_NONE; kind <= FOVEA_SCALE_GROUP; ++kind) {
      if (codec == FOVEA_CODEC_FP8 && kind == FOVEA_SCALE_NONE) continue;
      SCOPED_TRACE(std::string(fovea_codec_name(codec)) + " " + fovea_scale_kind_name(kind));
      const SideSpec side{codec, kind, rng.pick({FOVEA_F32, FOVEA_F16}), kind == FOVEA_SCALE_GROUP ? 8 : 0};
      for (bool same : {false, true}) {
        check_copy(eight_pages(KvLayout::nhd, side), eight_pages(KvLayout::hnd, side), same, FOVEA_I32, rng);
        if (HasFailure()) return;
      }
    }
  }
}

TEST(KvCopy, ScalesInPagesAndRecords) {
  Rng rng = test_rng();
  const SideSpec token{FOVEA_CODEC_FP8, FOVEA_SCALE_TOKEN_HEAD, FOVEA_F32, 0};
  check_copy(eight_pages(KvLayout::scales_in_page, token), eight_pages(KvLayout::nhd, token), false, FOVEA_I32, rng);
  KvSpec mla = eight_pages(KvLayout::record, {FOVEA_CODEC_FP8, FOVEA_SCALE_GROUP, FOVEA_F32, 128});
  mla.heads = 1;
  mla.d_k = 576;
  mla.d_v = 512;
  mla.d_rope = 64;
  mla.v_in_k = true;
  mla.v = {};
  KvSpec apart = mla;
  apart.layout = KvLayout::nhd;
  check_copy(mla, apart, false, FOVEA_I64, rng);
  check_copy(apart, mla, false, FOVEA_I32, rng);
  check_copy(mla, mla, true, FOVEA_I32, rng);
}

TEST(KvCopy, NothingToCopy) {
  Rng rng = test_rng();
  const Pages pages(eight_pages(KvLayout::nhd, {}), rng);
  const auto before = pages.cache.bytes();
  const TensorBox none(FOVEA_I32, {0, 2});
  const KvCopyParams params{.src = &pages.cache.kv(), .dst = &pages.cache.kv(), .copies = none};
  for (const Backend& backend : backends(FOVEA_OP_KV_COPY)) {
    const Result result = run(backend, params);
    EXPECT_TRUE(result) << result.message;
    EXPECT_EQ(pages.cache.bytes(), before);
  }
}

TEST(KvCopy, PagesBeyondTwoToThe31Elements) {
  Rng rng = test_rng();
  constexpr int64_t kRow = 8 * 128, kPages = (int64_t{1} << 31) / kRow * 2 + 64;  // page size 1
  const Sparse k(kPages * kRow * 2), v(kPages * kRow * 2);
  fovea_kv kv;
  kv.heads = 8;
  kv.d_k = kv.d_v = 128;
  kv.page_size = 1;
  kv.pages = kPages;
  kv.k.codec = kv.v.codec = FOVEA_CODEC_F16;
  kv.k.data = {k.data(), kRow * 2, kRow * 2, 256};
  kv.v.data = {v.data(), kRow * 2, kRow * 2, 256};
  const int64_t from = kPages - 1, to = kPages / 2 + 1;
  const TensorBox copies = indices({from, to}, FOVEA_I64, {1, 2});
  const KvCopyParams params{.src = &kv, .dst = &kv, .copies = copies};
  for (const Backend& backend : backends(FOVEA_OP_KV_COPY)) {
    for (const Sparse* pool : {&k, &v}) {
      for (int64_t i = 0; i < kRow; ++i) oracle::encode(FOVEA_F16, pool->data() + (from * kRow + i) * 2, rng.normal());
    }
    RUN_OR_CONTINUE(run(backend, params));
    for (const Sparse* pool : {&k, &v}) {
      EXPECT_EQ(std::memcmp(pool->data() + from * kRow * 2, pool->data() + to * kRow * 2, kRow * 2), 0) << backend.name;
    }
  }
}

// Bad ids are an error before anything is copied, also when they come last.
TEST(KvCopy, Mistakes) {
  using Change = void (*)(KvCopyParams&, fovea_kv & src, fovea_kv & dst, std::vector<int64_t> & pairs);
  const struct {
    const char* word;
    Change change;
  } mistakes[] = {
      {"copies", [](auto&, auto&, auto&, auto& x) { x.back() = 8; }},
      {"copies", [](auto&, auto&, auto&, auto& x) { x.back() = -1; }},
      {"copies", [](auto&, auto&, auto&, auto& x) { x[2] = 77; }},
      {"copies", [](auto&, auto&, auto&, auto& x) { x[2] = INT32_MIN; }},
      {"copies", [](auto&, auto&, auto&, auto& x) { x[3] = x[1]; }},                   // two sources for one page
      {"copies", [](auto& p, auto&, auto&, auto& x) { p.dst = p.src, x[2] = x[1]; }},  // a source that is written to
      {"src", [](auto& p, auto&, auto&, auto&) { p.src = nullptr; }},
      {"dst", [](auto& p, auto&, auto&, auto&) { p.dst = nullptr; }},
      {"dst", [](auto&, auto&, auto& dst, auto&) { dst.k.codec = FOVEA_CODEC_BF16; }},
      {"dst", [](auto&, auto&, auto& dst, auto&) { dst.heads = 1; }},
      {"dst", [](auto&, auto&, auto& dst, auto&) { dst.d_v = 16; }},
      {"dst", [](auto&, auto&, auto& dst, auto&) { dst.page_size = 2; }},
      {"src", [](auto&, auto& src, auto&, auto&) { src.k.data.base = nullptr; }},
  };
  Rng rng = test_rng();
  for (const auto& mistake : mistakes) {
    SCOPED_TRACE(&mistake - mistakes);
    Pages a(eight_pages(KvLayout::nhd, {}), rng), b(eight_pages(KvLayout::nhd, {}), rng);
    a.fill(rng);
    fovea_kv src = a.cache.kv(), dst = b.cache.kv();
    KvCopyParams params{.src = &src, .dst = &dst};
    std::vector<int64_t> pairs = {0, 1, 2, 3, 4, 5};
    mistake.change(params, src, dst, pairs);
    const TensorBox copies = indices(pairs, FOVEA_I32, {3, 2});
    params.copies = copies;
    const auto before_a = a.cache.bytes(), before_b = b.cache.bytes();
    for (const Backend& backend : backends(FOVEA_OP_KV_COPY)) {
      const Result result = run(backend, params);
      EXPECT_NE(result.code, FOVEA_OK);
      EXPECT_NE(result.code, FOVEA_INTERNAL);
      EXPECT_NE(result.message.find(mistake.word), std::string::npos) << result.message;
      EXPECT_TRUE(a.cache.bytes() == before_a && b.cache.bytes() == before_b) << "wrote before refusing";
    }
  }
  Pages a(eight_pages(KvLayout::nhd, {}), rng);
  for (std::vector<int64_t> shape : {std::vector<int64_t>{3, 3}, std::vector<int64_t>{9}}) {
    const TensorBox copies = indices({0, 1, 2, 3, 4, 5, 6, 7, 0}, FOVEA_I32, shape);
    const KvCopyParams params{.src = &a.cache.kv(), .dst = &a.cache.kv(), .copies = copies};
    EXPECT_TRUE(names(run(backends().front().context, params).message, "copies"));
  }
  const TensorBox reals = floats({0, 1}, FOVEA_F32, {1, 2});
  const KvCopyParams params{.src = &a.cache.kv(), .dst = &a.cache.kv(), .copies = reals};
  EXPECT_EQ(run(backends().front().context, params).code, FOVEA_INVALID_TYPE);
}

}  // namespace
}  // namespace fovea::test
