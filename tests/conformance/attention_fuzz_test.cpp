// SPDX-License-Identifier: Apache-2.0
// Random valid calls against the oracle: lengths, values, layouts, shapes and options as independent axes.
// FOVEA_FUZZ_CASES sets how many, FOVEA_TEST_SEED which.
#include <algorithm>

#include "conformance/attention_random.h"
#include "support/attention_cases.h"

namespace fovea::test {

SideSpec random_side(Rng& rng, int32_t dims) {
  SideSpec side;
  side.codec = rng.pick({FOVEA_CODEC_F32, FOVEA_CODEC_F16, FOVEA_CODEC_BF16, FOVEA_CODEC_FP8});
  if (side.codec != FOVEA_CODEC_FP8 && rng.chance(0.7)) return side;
  side.scale_kind = rng.pick({FOVEA_SCALE_TENSOR, FOVEA_SCALE_HEAD, FOVEA_SCALE_TOKEN_HEAD, FOVEA_SCALE_GROUP});
  side.scale_dtype = rng.pick({FOVEA_F32, FOVEA_F16, FOVEA_BF16});
  if (side.scale_kind == FOVEA_SCALE_GROUP) side.scale_group = dims % 16 == 0 ? rng.pick({8, 16, dims}) : dims;
  return side;
}

namespace {

int64_t random_len(Rng& rng, int32_t page) {
  const int64_t edge = rng.pick<int64_t>({16, 32, 64, page, 2 * page, 128});
  const int64_t len = rng.pick<int64_t>({0, 1, 2, edge - 1, edge, edge + 1, 3 * edge + 5, rng.integer(0, 200)});
  return std::min<int64_t>(std::max<int64_t>(len, 0), 400);
}

void random_kv(Rng& rng, AttentionCase& c, KvSpec& kv) {
  kv.page_size = rng.pick({1, 2, 3, 5, 16, 16, 48, 64, 128, 256});
  kv.index = rng.pick({KvIndex::table, KvIndex::table, KvIndex::csr, KvIndex::contiguous, KvIndex::ragged});
  kv.layout = rng.pick({KvLayout::nhd, KvLayout::hnd, KvLayout::halves, KvLayout::joint_hnd, KvLayout::joint_nhd,
                        KvLayout::one_pool, KvLayout::reversed, KvLayout::shared_heads});
  const bool paged = kv.index == KvIndex::table || kv.index == KvIndex::csr;
  kv.k = random_side(rng, kv.d_k);
  kv.v = random_side(rng, kv.d_v);
  if (kv.layout == KvLayout::one_pool && !paged) kv.layout = KvLayout::nhd;
  // Both sides in one buffer: equal rows keep each other aligned to their elements.
  if (kv.layout == KvLayout::joint_hnd || kv.layout == KvLayout::joint_nhd || kv.layout == KvLayout::halves) {
    if (kv.d_k == kv.d_v) {
      kv.v = kv.k;
    } else {
      kv.layout = KvLayout::nhd;
    }
  }
  if (kv.layout == KvLayout::nhd && rng.chance(0.15) && kv.d_v <= kv.d_k) {
    kv.v_in_k = true;
    kv.v = {};
  }
  if (kv.d_k >= 32 && rng.chance(0.15)) {
    kv.d_rope = rng.pick({8, 16});
    kv.rope_dtype = rng.pick({FOVEA_F32, FOVEA_F16, FOVEA_BF16});
    kv.k.scale_group = kv.k.scale_kind == FOVEA_SCALE_GROUP ? 8 : 0;
    if (kv.v_in_k && kv.d_v > kv.d_k - kv.d_rope) kv.d_rope = 0;
    if (kv.layout != KvLayout::nhd && kv.layout != KvLayout::hnd) kv.d_rope = 0;
  }
  kv.v_table = paged && !kv.v_in_k && rng.chance(0.2);
  kv.index_dtype = rng.pick({FOVEA_I32, FOVEA_I64});
  kv.page_pad = kv.layout == KvLayout::halves ? 0 : rng.pick<int64_t>({0, 0, 16, 64});
  kv.place = rng.pick({Place::end, Place::begin});
  kv.spare_pages = rng.integer(0, 3);
  for (size_t b = 0; b < c.q_lens.size(); ++b) kv.lens.push_back(random_len(rng, std::min(kv.page_size, 64)));
  if (rng.chance(0.2)) {
    for (int64_t len : kv.lens) kv.starts.push_back(rng.integer(0, len));
  }
  if (kv.index != KvIndex::ragged && rng.chance(0.15)) {
    kv.shard_world = rng.pick({2, 3, 4});
    kv.shard_rank = static_cast<int32_t>(rng.integer(0, kv.shard_world - 1));
    kv.shard_interleave = rng.pick({1, 3, 16});
  }
}

void random_options(Rng& rng, AttentionCase& c) {
  fovea_attention_params& o = c.options;
  o.mask = rng.pick({FOVEA_MASK_NONE, FOVEA_MASK_CAUSAL, FOVEA_MASK_CAUSAL, FOVEA_MASK_WINDOW, FOVEA_MASK_CHUNK});
  if (o.mask == FOVEA_MASK_WINDOW) {
    o.window_left = rng.pick({-1, 0, 1, 15, 16, 31, 100});
    o.window_right = rng.pick({-1, 0, 0, 3, 40});
    if (o.window_left < 0 && o.window_right < 0) o.window_left = 5;
  }
  if (o.mask == FOVEA_MASK_CHUNK) {
    o.chunk_size = rng.pick<int64_t>({1, 7, 16, 50, 1000});
    o.chunk_origin = rng.pick<int64_t>({0, 0, 3, 60});
  }
  if (rng.chance(0.25)) o.softcap = rng.pick({2.0f, 10.0f, 50.0f});
  if (rng.chance(0.25)) o.scale = rng.pick({0.05f, 0.3f, 1.0f});
  if (rng.chance(0.3)) o.split_size = rng.pick({1, 16, 33, 64, 4096});
  o.batch_invariant = rng.chance(0.15);
  o.chunk_invariant = o.batch_invariant && rng.chance(0.5);
  c.alibi = rng.chance(0.2);
  c.alibi_batch = c.alibi && rng.chance(0.3);
  c.sinks = rng.chance(0.25);
  if (!rng.chance(0.2)) return;
  for (size_t b = 0; b < c.q_lens.size(); ++b) {
    int64_t len = 0;
    for (const KvSpec& kv : c.kv) len += kv.lens[b];
    c.mask_lens.push_back(rng.integer(0, len + 3));  // the first bits may lie before the first key
  }
  c.bit_density = rng.pick({0.1, 0.5, 0.95});
}

}  // namespace

AttentionCase random_attention(Rng& rng) {
  AttentionCase c;
  c.q_lens.clear();
  const int64_t batch = rng.pick<int64_t>({0, 1, 1, 2, 3, 4});
  for (int64_t b = 0; b < batch; ++b) c.q_lens.push_back(rng.pick<int64_t>({0, 1, 1, 2, 3, 5, 8, 17}));
  KvSpec kv;
  kv.heads = rng.pick({1, 2, 3, 4});
  kv.d_k = static_cast<int32_t>(8 * rng.integer(2, rng.chance(0.1) ? 72 : 16));
  kv.d_v = rng.chance(0.7) ? kv.d_k : static_cast<int32_t>(8 * rng.integer(2, 16));
  c.heads = kv.heads * rng.pick({1, 1, 2, 3, 4, 5, 7, 8, 16});
  c.kv.clear();
  const int64_t segments = rng.pick<int64_t>({1, 1, 1, 1, 1, 2, 3});
  for (int64_t s = 0; s < segments; ++s) {
    KvSpec segment = kv;
    random_kv(rng, c, segment);
    c.kv.push_back(segment);
  }
  c.q_dtype = rng.pick({FOVEA_F32, FOVEA_F16, FOVEA_BF16, FOVEA_E4M3});
  c.out_dtype = rng.pick({FOVEA_F32, FOVEA_F16, FOVEA_BF16, FOVEA_E4M3});
  if (c.q_dtype == FOVEA_E4M3) c.options.q_scale = rng.pick({0.125f, 0.5f, 1.0f});
  if (c.out_dtype == FOVEA_E4M3) c.options.out_scale = rng.pick({0.0625f, 0.25f, 1.0f});
  c.lse = rng.chance(0.7);
  c.padded = rng.chance(0.3);
  c.pad_front = c.padded ? rng.integer(0, 2) : 0;
  c.pad_back = c.padded ? rng.integer(0, 2) : 0;
  c.any_layout = rng.chance(0.5);
  c.index_dtype = rng.pick({FOVEA_I32, FOVEA_I64});
  c.q_values =
      rng.pick({Values::normal, Values::normal, Values::peaked, Values::uniform, Values::one_hot, Values::zero});
  c.k_values =
      rng.pick({Values::normal, Values::normal, Values::equal, Values::huge, Values::one_hot, Values::denormal});
  c.v_values =
      rng.pick({Values::normal, Values::normal, Values::uniform, Values::one_hot, Values::equal, Values::zero});
  if (c.kv[0].v_in_k) c.v_values = c.k_values;
  random_options(rng, c);
  return c;
}

namespace {

TEST(AttentionFuzz, RandomCalls) {
  const int64_t cases = env_number("FOVEA_FUZZ_CASES", static_cast<int64_t>(300 * effort()));
  for (int64_t i = 0; i < cases; ++i) {
    Rng rng = test_rng(static_cast<uint64_t>(i));
    const AttentionCase c = random_attention(rng);
    ASSERT_TRUE(check_attention(c, rng)) << "case " << i;
  }
}

}  // namespace
}  // namespace fovea::test
