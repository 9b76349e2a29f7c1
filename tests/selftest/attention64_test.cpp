// SPDX-License-Identifier: Apache-2.0
// The oracle against results worked out by hand, and its same-precision reference against its own bound.
#include <gtest/gtest.h>

#include <cmath>

#include "oracle/attention64.h"
#include "oracle/kv64.h"
#include "support/check.h"
#include "support/kv_cache.h"
#include "support/tensors.h"

namespace fovea::test {
namespace {

// One query of one head against three keys with logits 1, 2, 3 and values 10, 20, 30.
struct Tiny {
  TensorBox q = floats({1, 0}, FOVEA_F32, {1, 1, 2}), out{FOVEA_F32, {1, 1, 1}}, cu = indices({0, 1});
  TensorBox keys = floats({1, 0, 2, 0, 3, 0}, FOVEA_F32, {3, 2}), values = floats({10, 20, 30}), lens = indices({3});
  fovea_kv kv;
  fovea_attention_params p;
  Tiny() {
    kv.heads = 1;
    kv.d_k = 2;
    kv.d_v = 1;
    kv.page_size = 3;
    kv.pages = 1;
    kv.k.codec = kv.v.codec = FOVEA_CODEC_F32;
    kv.k.data = {keys.at(0), 24, 8, 0};
    kv.v.data = {values.at(0), 12, 4, 0};
    kv.kv_lens = lens;
    p.q = q;
    p.out = out;
    p.cu_seqlens_q = cu;
    p.kv = &kv;
    p.scale = 1;
  }
  void expect(std::vector<double> logits, double sink_weight = 0) const {
    double sum = sink_weight, x = 0;
    for (size_t i = 0; i < logits.size(); ++i) {
      sum += std::exp(logits[i]);
      x += std::exp(logits[i]) * 10.0 * (static_cast<double>(i) + 1);
    }
    const oracle::Attention64 r = oracle::attention64(p);
    EXPECT_NEAR(r.out[0], x / sum, 1e-12);
    EXPECT_NEAR(r.lse[0], std::log(sum), 1e-12);
    EXPECT_LE(std::fabs(r.same[0] - r.out[0]), r.out_bound[0]);
    EXPECT_LT(r.out_bound[0], 1e-4);
  }
};

TEST(Oracle, LogitsByHand) {
  Tiny t;
  t.expect({1, 2, 3});
  t.p.scale = 0.5f;
  t.expect({0.5, 1, 1.5});
  t.p.scale = 1;
  t.p.softcap = 2;
  t.expect({2 * std::tanh(0.5), 2 * std::tanh(1.0), 2 * std::tanh(1.5)});
  const TensorBox slope = floats({0.5});
  t.p.alibi_slopes = slope;  // the query stands at position 2
  t.expect({2 * std::tanh(0.5) - 1, 2 * std::tanh(1.0) - 0.5, 2 * std::tanh(1.5)});
  t.p.softcap = 0;
  const TensorBox sink = floats({2.5});
  t.p.sinks = sink;
  t.expect({1 - 1, 2 - 0.5, 3}, std::exp(2.5));
}

TEST(Oracle, MasksByHand) {
  Tiny t;
  const auto hide = [](std::vector<double> logits) {
    for (double& x : logits) x = x == 0 ? -INFINITY : x;
    return logits;
  };
  t.p.mask = FOVEA_MASK_WINDOW;
  t.p.window_left = 1;
  t.expect(hide({0, 2, 3}));
  t.p.mask = FOVEA_MASK_CHUNK;
  t.p.chunk_size = 2;
  t.expect(hide({0, 0, 3}));
  t.p.chunk_origin = 1;
  t.expect(hide({0, 2, 3}));
  t.p.mask = FOVEA_MASK_CAUSAL;
  const TensorBox starts = indices({1}), bits(FOVEA_U32, {1, 1}), bit_lens = indices({2});
  t.kv.starts = starts;
  t.expect(hide({0, 2, 3}));
  t.kv.starts = {};
  bits.set(0, 1);  // of the last two keys the first is seen
  t.p.mask_bits = bits;
  t.p.mask_lens = bit_lens;
  t.expect(hide({1, 2, 0}));
}

TEST(Oracle, ShardsNumberTheirTokensInOrder) {
  fovea_kv kv;
  kv.shard_world = 3;
  kv.shard_interleave = 2;
  for (int32_t rank = 0; rank < 3; ++rank) {
    kv.shard_rank = rank;
    int64_t next = 0;
    for (int64_t t = 0; t < 20; ++t) {
      if (!oracle::kv_holds(kv, t)) continue;
      EXPECT_EQ(oracle::kv_local(kv, t), next++);
    }
    EXPECT_EQ(next, rank == 0 ? 8 : 6);
  }
}

// A cache decodes what was written into it, wherever its layout puts it.
TEST(KvCache, HoldsWhatWasWritten) {
  Rng rng = test_rng();
  for (KvLayout layout : kPlainLayouts) {
    for (KvIndex index : {KvIndex::table, KvIndex::csr, KvIndex::contiguous, KvIndex::ragged}) {
      if (layout == KvLayout::one_pool && index != KvIndex::table && index != KvIndex::csr) continue;
      const KvSpec spec{.lens = {7, 0, 18},
                        .heads = layout == KvLayout::shared_heads ? 1 : 2,
                        .d_k = 8,
                        .d_v = 8,
                        .page_size = 4,
                        .layout = layout,
                        .index = index};
      const auto all = [](int64_t, int64_t) { return true; };
      const KvCache cache(spec, rng, all);
      const auto value = [](int64_t b, int64_t t, int64_t h, int64_t d) {
        return static_cast<double>(b * 1000 + t * 20 + h * 8 + d);
      };
      for (int round = 0; round < 2; ++round) {  // all are written before any is read
        for (int64_t b = 0; b < 3; ++b) {
          for (int64_t t = 0; t < spec.lens[static_cast<size_t>(b)]; ++t) {
            std::vector<double> k, v;
            for (int64_t i = 0; i < int64_t{spec.heads} * 8; ++i) {
              k.push_back(value(b, t, i / 8, i % 8));
              v.push_back(-k.back());
            }
            if (round == 0) cache.write(b, t, k, v, rng);
            for (int64_t i = 0; i < int64_t{spec.heads} * 8; ++i) {
              EXPECT_EQ(oracle::k_at(cache.kv(), oracle::kv_slot(cache.kv(), b, t, false), i / 8, i % 8),
                        k[static_cast<size_t>(i)]);
              EXPECT_EQ(oracle::v_at(cache.kv(), oracle::kv_slot(cache.kv(), b, t, true), i / 8, i % 8),
                        v[static_cast<size_t>(i)]);
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace fovea::test
