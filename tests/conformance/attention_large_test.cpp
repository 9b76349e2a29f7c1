// SPDX-License-Identifier: Apache-2.0
// Offsets above 2^31 elements: sparse mappings of many gibibytes of address space, of which a few pages are touched.
#include "oracle/kv64.h"
#include "oracle/numbers.h"
#include "support/attention_cases.h"
#include "support/check.h"
#include "support/guarded.h"

namespace fovea::test {
namespace {

constexpr int64_t kTwo31 = int64_t{1} << 31;

// A f16 problem whose sequence has `columns` pages with the given ids; each side in a sparse pool of [pages, T, H, D].
struct LargeCache {
  LargeCache(int64_t pages, int32_t page_size, int32_t heads, int32_t d_k, int32_t d_v, bool v_in_k)
      : k(static_cast<size_t>(pages * page_size * heads * d_k * 2)),
        v(static_cast<size_t>(v_in_k ? 4096 : pages * page_size * heads * d_v * 2)) {
    kv.heads = heads;
    kv.d_k = d_k;
    kv.d_v = d_v;
    kv.page_size = page_size;
    kv.pages = pages;
    kv.v_in_k = v_in_k;
    kv.k.codec = FOVEA_CODEC_F16;
    kv.k.data = {k.data(), int64_t{page_size} * heads * d_k * 2, int64_t{heads} * d_k * 2, int64_t{d_k} * 2};
    if (v_in_k) return;
    kv.v.codec = FOVEA_CODEC_F16;
    kv.v.data = {v.data(), int64_t{page_size} * heads * d_v * 2, int64_t{heads} * d_v * 2, int64_t{d_v} * 2};
  }
  void write(Rng& rng, int64_t page, int64_t offset) const {
    for (int64_t h = 0; h < kv.heads; ++h) {
      for (int64_t d = 0; d < kv.d_k; ++d) {
        oracle::encode(FOVEA_F16, oracle::kv_address(kv.k.data, {page, offset}, h) + 2 * d, rng.normal());
      }
      for (int64_t d = 0; d < kv.d_v && !kv.v_in_k; ++d) {
        oracle::encode(FOVEA_F16, oracle::kv_address(kv.v.data, {page, offset}, h) + 2 * d, rng.normal());
      }
    }
  }
  fovea_kv kv;
  Sparse k, v;
};

void check_against_oracle(const fovea_attention_params& p, const TensorBox& out) {
  const oracle::Attention64 want = oracle::attention64(p);
  for (const Backend& backend : backends(FOVEA_OP_ATTENTION)) {
    out.fill([](int64_t) { return 7.0; });
    RUN_OR_CONTINUE(run(backend, p));
    EXPECT_TRUE(within(out, want.out, want.out_bound)) << backend.name;
  }
}

void check_pages(LargeCache& cache, const std::vector<int64_t>& ids, int64_t len, int32_t heads) {
  Rng rng = test_rng(static_cast<uint64_t>(ids.back()));
  const fovea_kv& kv = cache.kv;
  for (int64_t t = 0; t < len; ++t) cache.write(rng, ids[static_cast<size_t>(t / kv.page_size)], t % kv.page_size);
  const TensorBox table = indices(ids, FOVEA_I32, {1, static_cast<int64_t>(ids.size())});
  const TensorBox kv_lens = indices({len}), cu = indices({0, 2});
  const TensorBox q = floats(draw(rng, Values::normal, 2 * heads, kv.d_k), FOVEA_F16, {2, heads, kv.d_k});
  const TensorBox out(FOVEA_F16, {2, heads, kv.d_v});
  cache.kv.page_table = table;
  cache.kv.kv_lens = kv_lens;
  fovea_attention_params p;
  p.mask = FOVEA_MASK_CAUSAL;
  p.q = q;
  p.out = out;
  p.cu_seqlens_q = cu;
  p.kv = &cache.kv;
  check_against_oracle(p, out);
}

TEST(BugCorpus, C01_C04_C16_PagesBeyondTwoToThe31Elements) {
  constexpr int64_t kPageElements = 16 * 8 * 128;
  LargeCache cache(2 * kTwo31 / kPageElements + 8, 16, 8, 128, 128, false);
  const int64_t at = kTwo31 / kPageElements;
  check_pages(cache, {at - 1, at, at + 1, 2 * at, 2 * at + 7, 3}, 90, 16);
}

TEST(BugCorpus, C02_MlaPagesBeyondTwoToThe31Elements) {
  constexpr int64_t kPageElements = 480 * 576;
  const int64_t at = kTwo31 / kPageElements;
  LargeCache cache(2 * at + 4, 480, 1, 576, 512, true);
  check_pages(cache, {at, 2 * at + 2}, 500, 16);
}

TEST(BugCorpus, C14_SlotsBeyondTwoToThe31) {
  constexpr int64_t kRow = 8 * 128;  // page size 1
  const int64_t at = kTwo31 / kRow;
  LargeCache cache(2 * at + 100, 1, 8, 128, 128, false);
  check_pages(cache, {at - 1, at, at + 1, 2 * at - 1, 2 * at, 2 * at + 1, 0, 2 * at + 99}, 8, 8);
}

// Offsets of tokens in a ragged buffer, and of heads in a long contiguous one.
TEST(BugCorpus, C01_TokensAndHeadsBeyondTwoToThe31Elements) {
  Rng rng = test_rng();
  constexpr int64_t kRow = 8 * 128, kFirst = kTwo31 / kRow + 3, kLen = 20;
  const TensorBox cu = indices({0, 0, 2}), cu_kv = indices({0, kFirst, kFirst + kLen}), kv_lens = indices({0, kLen});
  const TensorBox q = floats(draw(rng, Values::normal, 2 * 8, 128), FOVEA_F16, {2, 8, 128});
  const TensorBox out(FOVEA_F16, {2, 8, 128});
  fovea_attention_params p;
  p.q = q;
  p.out = out;
  p.cu_seqlens_q = cu;
  LargeCache ragged(1, static_cast<int32_t>(kFirst + kLen), 8, 128, 128, false);
  ragged.kv.cu_seqlens_kv = cu_kv;
  ragged.kv.kv_lens = kv_lens;
  for (int64_t t = kFirst; t < kFirst + kLen; ++t) ragged.write(rng, 0, t);
  p.kv = &ragged.kv;
  check_against_oracle(p, out);
  LargeCache long_heads(2, static_cast<int32_t>(kTwo31 / 128 / 7), 8, 128, 128, false);  // [batch, heads, tokens, d]
  for (fovea_kv_stream* s : {&long_heads.kv.k.data, &long_heads.kv.v.data}) {
    s->token_stride = 256;
    s->head_stride = int64_t{long_heads.kv.page_size} * 256;
  }
  long_heads.kv.kv_lens = kv_lens;
  for (int64_t t = 0; t < kLen; ++t) long_heads.write(rng, 1, t);
  p.kv = &long_heads.kv;
  check_against_oracle(p, out);
}

// Strides of Q and the output above 2^31 elements; and a contiguous cache with such a stride between sequences.
TEST(BugCorpus, C07_C09_StridesBeyondTwoToThe31) {
  Rng rng = test_rng();
  constexpr int64_t kStride = kTwo31 + 64;
  const Sparse q_memory(static_cast<size_t>(kStride) * 2 + 65536), out_memory(static_cast<size_t>(kStride) * 2 + 65536);
  const Sparse kv_memory(static_cast<size_t>(kStride) * 2 + 65536);
  const Tensor q = tensor(q_memory.data(), FOVEA_F16, {2, 3, 4, 32}, {kStride, 128, 32, 1});
  const Tensor out = tensor(out_memory.data(), FOVEA_F16, {2, 3, 4, 32}, {kStride, 128, 32, 1});
  for (int64_t i = 0; i < elements(q); ++i) oracle::encode(FOVEA_F16, element(q, i), rng.normal());
  const TensorBox kv_lens = indices({20, 9});
  fovea_kv kv;
  kv.heads = 2;
  kv.d_k = kv.d_v = 32;
  kv.page_size = 20;
  kv.pages = 2;
  kv.k.codec = kv.v.codec = FOVEA_CODEC_F16;
  kv.k.data = {kv_memory.data(), kStride * 2, 256, 64};
  kv.v.data = {kv_memory.data() + 128, kStride * 2, 256, 64};
  kv.kv_lens = kv_lens;
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t t = 0; t < 20 * 128; ++t) {
      oracle::encode(FOVEA_F16, kv_memory.data() + b * kStride * 2 + t * 2, rng.normal());
    }
  }
  fovea_attention_params p;
  p.q = q;
  p.out = out;
  p.kv = &kv;
  const oracle::Attention64 want = oracle::attention64(p);
  for (const Backend& backend : backends(FOVEA_OP_ATTENTION)) {
    RUN_OR_CONTINUE(run(backend, p));
    EXPECT_TRUE(within(out, want.out, want.out_bound)) << backend.name;
  }
}

}  // namespace
}  // namespace fovea::test
