// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "fovea/fovea.hpp"
#include "ops/kv_store.h"
#include "oracle/numbers.h"
#include "oracle/rope64.h"
#include "support/backends.h"
#include "support/check.h"
#include "support/tensors.h"

namespace {

using namespace fovea::test;
using fovea::KvAppendParams;
using fovea::Result;
using fovea::RopeConfig;
using fovea::oracle::rope_head;
using fovea::oracle::round_to;
using fovea::oracle::ulp;

const fovea::Context& context() {
  return backends()[0].context;
}

// What a side must hold for x: the rule of docs/kv_append.md in plain steps.
void expect_vector(const Store::Side& side, const fovea::KvSide& form, int64_t slot, int64_t head,
                   const std::vector<double>& x) {
  const std::vector<double> stored = vector_at(side.data, slot, head);
  const int64_t n = static_cast<int64_t>(stored.size());
  const int64_t unit = form.scale_kind == FOVEA_SCALE_GROUP ? form.scale_group : n;
  for (int64_t first = 0; first < n; first += unit) {
    const int64_t last = std::min(n, first + unit);
    float scale = 1;
    if (form.scale_kind == FOVEA_SCALE_TENSOR || form.scale_kind == FOVEA_SCALE_HEAD) {
      scale = static_cast<float>(side.scale.get(form.scale_kind == FOVEA_SCALE_HEAD ? head : 0));
    } else if (form.scale_kind != FOVEA_SCALE_NONE) {
      float most = 0;
      for (int64_t i = first; i < last; ++i) most = std::max(most, std::fabs(static_cast<float>(x[i])));
      scale = static_cast<float>(round_to(form.scale_dtype, most / 448.0f));
      ASSERT_EQ(vector_at(side.scale, slot, head)[first / unit], scale) << "scale";
    }
    for (int64_t i = first; i < last; ++i) {
      const double want = round_to(element_type(form.codec), static_cast<float>(x[i]) / scale);
      ASSERT_EQ(stored[i], want) << "slot " << slot << " head " << head << " dim " << i << " of " << x[i] << " by "
                                 << scale;
    }
  }
}

const std::vector<int64_t> kSomeSlots = {7, 0, -1, 19, 3, -5, 12};

TEST(KvAppend, StoresTheBytesOfEveryCodecScaleKindAndType) {
  uint64_t salt = 0;
  for (int32_t codec : {FOVEA_CODEC_F32, FOVEA_CODEC_F16, FOVEA_CODEC_BF16, FOVEA_CODEC_FP8}) {
    for (int32_t kind = FOVEA_SCALE_NONE; kind <= FOVEA_SCALE_GROUP; ++kind) {
      if (codec == FOVEA_CODEC_FP8 ? kind == FOVEA_SCALE_NONE : kind > FOVEA_SCALE_HEAD) continue;
      for (int32_t type : {FOVEA_F32, FOVEA_F16, FOVEA_BF16}) {
        for (const Backend& backend : backends()) {
          SCOPED_TRACE(backend.name + " codec " + std::to_string(codec) + " kind " + std::to_string(kind) + " type " +
                       std::to_string(type) + " " + seed_note());
          Rng rng = test_rng(++salt);
          StoreForm form{.k_codec = codec, .v_codec = codec, .k_scale = kind, .v_scale = kind};
          form.scale_dtype = rng.pick<int32_t>({FOVEA_F32, FOVEA_F16, FOVEA_BF16});
          form.page_size = rng.pick({1, 3, 4, 16});
          form.pages = 20 / form.page_size + 1;
          form.group = rng.pick({8, 16, 40 - 16});
          if (kind == FOVEA_SCALE_GROUP) form.group = std::min<int32_t>(form.group, 24);
          form.d_k = rng.pick({40, 33, 64});
          Store store(form, rng);
          const Tokens tokens(store, kSomeSlots, rng, type, rng.pick<int32_t>({FOVEA_I32, FOVEA_I64}));
          const Result result = run(backend.context, tokens.params(store));
          ASSERT_TRUE(result) << result.message;
          for (size_t t = 0; t < kSomeSlots.size(); ++t) {
            for (int64_t h = 0; kSomeSlots[t] >= 0 && h < 2; ++h) {
              const int64_t i = static_cast<int64_t>(t);
              expect_vector(store.k, store.kv.k, kSomeSlots[t], h, tokens.vector(tokens.k, i, h));
              expect_vector(store.v, store.kv.v, kSomeSlots[t], h, tokens.vector(tokens.v, i, h));
            }
          }
          expect_rest_untouched(store, kSomeSlots);
        }
      }
    }
  }
}

// x / sqrt(mean(x^2) + eps) * (w + offset) in double, with the error of f32 sums added to the bound.
std::vector<double> rms(std::vector<double> x, const std::vector<double>& w, double eps, double offset) {
  double power = 0;
  for (double v : x) power += v * v / static_cast<double>(x.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] *= (w[i] + offset) / std::sqrt(power + eps);
  return x;
}

TEST(KvAppend, NormAndRopeOfKAndQ) {
  for (int32_t style : {FOVEA_ROPE_NEOX, FOVEA_ROPE_GPTJ}) {
    for (int32_t d_rope : {0, 16}) {
      for (const Backend& backend : backends()) {
        SCOPED_TRACE(backend.name + " style " + std::to_string(style) + " d_rope " + std::to_string(d_rope));
        Rng rng = test_rng();
        Store store({.k_codec = FOVEA_CODEC_F32, .d_rope = d_rope, .rope_dtype = FOVEA_F32}, rng);
        const Tokens tokens(store, kSomeSlots, rng, FOVEA_F32);
        Fused f = fuse(store, tokens, rng);
        f.rope.style = style;
        f.rope.rotary_dim = d_rope ? 0 : 24;
        f.params.rope = &f.rope;
        ASSERT_TRUE(run(backend.context, f.params));
        const auto wanted = [&](const std::vector<double>& x, const TensorBox& weight, int64_t token,
                                std::vector<double>& bound) {
          const std::ptrdiff_t split = store.f.d_k - d_rope;
          std::vector<double> y = rms({x.begin(), x.begin() + split}, weight.values(), 1e-5, 1);
          y.insert(y.end(), x.begin() + split, x.end());
          const std::ptrdiff_t from = d_rope ? split : 0;
          const auto position = [&](int) { return static_cast<int64_t>(f.positions.get(token)); };
          std::vector<double> loss;
          const std::vector<double> turned = rope_head(f.rope, {y.begin() + from, y.end()}, position, &loss);
          std::copy(turned.begin(), turned.end(), y.begin() + from);
          double largest = 0;
          for (double v : y) largest = std::max(largest, std::fabs(v));
          bound.assign(y.size(), 16 * 0x1p-24 * largest);
          for (size_t i = 0; i < loss.size(); ++i) bound[static_cast<size_t>(from) + i] += loss[i];
          return y;
        };
        for (size_t t = 0; t < kSomeSlots.size(); ++t) {
          const int64_t token = static_cast<int64_t>(t);
          std::vector<double> bound;
          for (int64_t h = 0; h < 6; ++h) {
            const std::vector<double> y = wanted(tokens.vector(f.q, token, h), f.q_weight, token, bound);
            for (size_t i = 0; i < y.size(); ++i) {
              ASSERT_NEAR(f.q_out.get((token * 6 + h) * store.f.d_k + static_cast<int64_t>(i)), y[i], bound[i]);
            }
          }
          for (int64_t h = 0; kSomeSlots[t] >= 0 && h < 2; ++h) {
            const std::vector<double> y = wanted(tokens.vector(tokens.k, token, h), f.k_weight, token, bound);
            std::vector<double> stored = vector_at(store.k.data, kSomeSlots[t], h);
            if (d_rope) {
              const std::vector<double> tail = vector_at(store.k_rope, kSomeSlots[t], h);
              stored.insert(stored.end(), tail.begin(), tail.end());
            }
            for (size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(stored[i], y[i], bound[i]) << "dim " << i;
          }
        }
        expect_rest_untouched(store, kSomeSlots);
        EXPECT_TRUE(f.q_out.outside_untouched());
      }
    }
  }
}

// The fused steps give the bits of norm, then rope, then an append, all in f32.
TEST(KvAppend, I06_FusedEqualsSeparateSteps) {
  for (const Backend& backend : backends()) {
    Rng rng = test_rng();
    StoreForm form{.k_codec = FOVEA_CODEC_FP8, .k_scale = FOVEA_SCALE_TOKEN_HEAD};
    Store fused(form, rng), separate(form, rng);
    const Tokens tokens(fused, {3, 9, 0}, rng, FOVEA_F32);
    Fused f = fuse(fused, tokens, rng);
    f.rope = {.scaling = FOVEA_ROPE_SCALING_LINEAR, .factor = 3};
    f.params.rope = &f.rope;
    ASSERT_TRUE(run(backend.context, f.params));
    const auto steps = [&](const TensorBox& x, const TensorBox& weight) {
      const fovea_tensor& v = x.view();
      TensorBox y(FOVEA_F32, {v.shape[0], v.shape[1], v.shape[2]});
      EXPECT_TRUE(run(backend.context,
                      fovea::NormParams{.x = x, .out = y, .weight = weight, .eps = 1e-5f, .weight_offset = 1}));
      EXPECT_TRUE(
          run(backend.context, fovea::RopeParams{.x = y, .out = y, .positions = f.positions, .config = &f.rope}));
      return y;
    };
    const TensorBox k = steps(tokens.k, f.k_weight), q = steps(f.q, f.q_weight);
    KvAppendParams params = tokens.params(separate);
    params.k = k;
    ASSERT_TRUE(run(backend.context, params));
    EXPECT_EQ(fused.bits(), separate.bits()) << backend.name;
    EXPECT_EQ(f.q_out.bits(), q.bits()) << backend.name;
  }
}

TEST(KvAppend, RoundsKToItsOwn16BitTypeBeforeEncoding) {
  for (int32_t type : {FOVEA_BF16, FOVEA_F16}) {
    for (int32_t d_rope : {0, 8}) {
      Rng rng = test_rng();
      StoreForm wide{.k_codec = FOVEA_CODEC_F32, .v_codec = FOVEA_CODEC_F32, .d_rope = d_rope, .rope_dtype = FOVEA_F32};
      Store in_f32(wide, rng);
      StoreForm narrow{.k_codec = FOVEA_CODEC_FP8, .k_scale = FOVEA_SCALE_TENSOR, .d_rope = d_rope};
      Store in_fp8(narrow, rng);
      const Tokens tokens(in_f32, {5}, rng, type);
      Fused f = fuse(in_f32, tokens, rng);
      f.params.rope = &f.rope;
      ASSERT_TRUE(run(context(), f.params));
      f.params.kv = &in_fp8.kv;
      ASSERT_TRUE(run(context(), f.params));
      for (int64_t h = 0; h < 2; ++h) {
        const std::vector<double> k = vector_at(in_f32.k.data, 5, h), codes = vector_at(in_fp8.k.data, 5, h);
        for (size_t i = 0; i < k.size(); ++i) {
          ASSERT_EQ(k[i], round_to(type, k[i])) << "not a value of the 16-bit type";
          ASSERT_EQ(codes[i], round_to(FOVEA_E4M3, static_cast<float>(k[i]) / 0.25f));
        }
      }
    }
  }
}

TEST(KvAppend, BytesDoNotDependOnChunkingThreadsOrLayout) {
  std::vector<int64_t> slots(70);
  for (size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<int64_t>((i * 13) % 70);
  std::vector<std::byte> want;
  for (int32_t threads : {1, 2, 3}) {
    const fovea::Context c = cpu_context(threads);
    for (int64_t chunk : {70, 1, 7, 64}) {
      Rng rng = test_rng();
      StoreForm form{.k_codec = FOVEA_CODEC_FP8, .v_codec = FOVEA_CODEC_FP8, .k_scale = FOVEA_SCALE_TOKEN_HEAD};
      form.v_scale = FOVEA_SCALE_GROUP;
      form.pages = 18;
      form.heads = 5;
      Rng other = test_rng(static_cast<uint64_t>(chunk + 1000 * threads));
      Store store(form, other);
      const Tokens tokens(store, slots, rng);
      Fused f = fuse(store, tokens, rng);
      f.params.rope = &f.rope;
      f.params.q_out = f.q;
      for (int64_t first = 0; first < 70; first += chunk) {
        KvAppendParams part = f.params;
        for (fovea_tensor* t : {&part.k, &part.v, &part.q, &part.q_out, &part.slot_mapping, &part.positions}) {
          *t = slice(*t, 0, first, std::min<int64_t>(70, first + chunk));
        }
        ASSERT_TRUE(run(c, part));
      }
      std::vector<std::byte> bits = store.bits();
      const std::vector<std::byte> q = f.q.bits();
      bits.insert(bits.end(), q.begin(), q.end());
      if (want.empty()) want = bits;
      EXPECT_EQ(bits, want) << threads << " threads, chunks of " << chunk;
    }
  }
}

TEST(KvAppend, B04_NegativeSlotsWriteNothingAndAreNotLookedAt) {
  Rng rng = test_rng();
  Store store({.k_codec = FOVEA_CODEC_FP8, .k_scale = FOVEA_SCALE_TOKEN_HEAD}, rng);
  const Tokens tokens(store, {-1, 2, INT32_MIN}, rng);
  for (int64_t i = 0; i < tokens.k.size(); ++i) {
    if (i / 80 != 1) tokens.k.set(i, NAN);
  }
  const RopeConfig rope;
  const TensorBox positions = indices({-3, 7, 1 << 30});
  KvAppendParams params = tokens.params(store);
  params.rope = &rope;
  params.positions = positions;
  uint32_t status = 0;
  const Result result = run(context(), params, {.flags = FOVEA_EXEC_CHECK, .status = &status});
  EXPECT_TRUE(result) << result.message;
  EXPECT_EQ(status, 0u);
  expect_rest_untouched(store, {2});
  // Q of such a token is still wanted, so its position is.
  const TensorBox q(FOVEA_F32, {3, 1, 40});
  q.fill([](int64_t) { return 1; });
  params.q = q;
  params.q_out = q;
  EXPECT_EQ(run(context(), params).message, "positions[0] is -3: must be in [0, 2147483648)");
}

TEST(KvAppend, SlotsPastThePoolWriteNothingAndAreReported) {
  for (int32_t index : {FOVEA_I32, FOVEA_I64}) {
    Rng rng = test_rng();
    Store store({}, rng);
    const Tokens tokens(store, {1, 20, 6, 2147483647}, rng, FOVEA_BF16, index);
    const Result checked = run(context(), tokens.params(store), {.flags = FOVEA_EXEC_CHECK});
    EXPECT_EQ(checked.message, "slot_mapping[1] is 20: the pool has 5 pages of 4 tokens");
    EXPECT_EQ(checked.code, FOVEA_INVALID_VALUE);
    expect_rest_untouched(store, {});
    uint32_t status = 0;
    EXPECT_TRUE(run(context(), tokens.params(store), {.status = &status}));
    EXPECT_EQ(status, static_cast<uint32_t>(FOVEA_INVALID_VALUE));
    expect_rest_untouched(store, {1, 6});
    expect_vector(store.k, store.kv.k, 6, 1, tokens.vector(tokens.k, 2, 1));
    EXPECT_TRUE(run(context(), tokens.params(store))) << "without a status word";
  }
}

// G02, G07: zero and tiny vectors; NaN and Inf where the scale is computed.
TEST(KvAppend, G02_ComputedScalesOfZeroTinyHugeAndBrokenVectors) {
  for (int32_t kind : {FOVEA_SCALE_TOKEN_HEAD, FOVEA_SCALE_GROUP}) {
    for (int32_t scale_dtype : {FOVEA_F32, FOVEA_F16, FOVEA_BF16}) {
      SCOPED_TRACE("kind " + std::to_string(kind) + " scale " + std::to_string(scale_dtype));
      Rng rng = test_rng();
      StoreForm form{.k_codec = FOVEA_CODEC_FP8, .v_codec = FOVEA_CODEC_F32, .k_scale = kind};
      form.scale_dtype = scale_dtype;
      form.heads = 1;
      Store store(form, rng);
      const double magnitudes[] = {0, 1e-45, 1e-40, 1e-38, 1e-20, 3e-6, 2e-5, 1e-3, 1e4, 1e30, 3e38};
      std::vector<int64_t> slots;
      for (size_t i = 0; i < std::size(magnitudes) + 3; ++i) slots.push_back(static_cast<int64_t>(i));
      const Tokens tokens(store, slots, rng, FOVEA_F32);
      tokens.k.fill([&](int64_t i) {
        const size_t token = static_cast<size_t>(i / 40);
        const double wave = 0.25 + 0.75 * std::fabs(std::cos(static_cast<double>(i % 40)));
        return token < std::size(magnitudes) ? magnitudes[token] * (i % 2 ? wave : -wave) : wave;
      });
      const int64_t broken = static_cast<int64_t>(std::size(magnitudes)) * 40;
      tokens.k.set(broken + 3, NAN);
      tokens.k.set(broken + 40 + 39, INFINITY);
      tokens.k.set(broken + 80 + 17, -INFINITY);
      tokens.v.fill([](int64_t) { return NAN; });  // stored as it came: no scale is computed
      uint32_t status = 0;
      ASSERT_TRUE(run(context(), tokens.params(store), {.status = &status}));
      EXPECT_EQ(status, static_cast<uint32_t>(FOVEA_INVALID_VALUE));
      const std::string message = run(context(), tokens.params(store), {.flags = FOVEA_EXEC_CHECK}).message;
      EXPECT_EQ(message, "kv_append: 3 vectors of K or V hold NaN or Inf: stored as zeros");
      for (int64_t slot : slots) {
        const std::vector<double> x = tokens.vector(tokens.k, slot, 0);
        const std::vector<double> codes = vector_at(store.k.data, slot, 0), scales = vector_at(store.k.scale, slot, 0);
        const int64_t unit = kind == FOVEA_SCALE_GROUP ? 16 : 40;
        for (int64_t first = 0; first < 40; first += unit) {
          const double scale = scales[static_cast<size_t>(first / unit)];
          const auto begin = x.begin() + first, end = x.begin() + std::min<int64_t>(40, first + unit);
          const bool finite = std::all_of(begin, end, [](double v) { return std::isfinite(v); });
          double most = 0;
          for (auto v = begin; v != end; ++v) most = std::max(most, std::fabs(*v));
          ASSERT_TRUE(scale == 0 || (finite && most > 0));
          ASSERT_TRUE(std::isfinite(scale)) << "slot " << slot;
          for (auto v = begin; v != end; ++v) {
            const double decoded = codes[static_cast<size_t>(v - x.begin())] * scale;
            if (!finite || most == 0) {
              ASSERT_EQ(decoded, 0);
            } else if (scale_dtype != FOVEA_F16 || most < 1e6) {
              // Half a step of e4m3 at the element, or of its subnormals, and the rounding of the scale itself.
              const double step = std::fabs(*v) * 0x1p-4 + scale * 0x1p-10 + most * 0x1p-8;
              ASSERT_NEAR(decoded, *v, step) << "slot " << slot << " of " << most;
            } else {
              ASSERT_NEAR(std::fabs(decoded), 448 * 65504.0, 448 * 65504.0 * 0.8) << "the largest f16 scale saturates";
            }
          }
        }
      }
    }
  }
}

TEST(KvAppend, G04_GivenScalesKeepNanSaturateInfAndZeroScalesStoreZero) {
  Rng rng = test_rng();
  Store store({.k_codec = FOVEA_CODEC_FP8,
               .v_codec = FOVEA_CODEC_FP8,
               .k_scale = FOVEA_SCALE_HEAD,
               .v_scale = FOVEA_SCALE_TENSOR},
              rng);
  store.k.scale.set(1, 0);
  const Tokens tokens(store, {0}, rng);
  const double odd[] = {NAN, INFINITY, -INFINITY, 1e30, -1e30, 0, -0.0, 112, 112.5};
  for (size_t i = 0; i < std::size(odd); ++i) {
    for (int64_t h = 0; h < 2; ++h) tokens.k.set(h * 40 + static_cast<int64_t>(i), odd[i]);
  }
  uint32_t status = 0;
  ASSERT_TRUE(run(context(), tokens.params(store), {.flags = FOVEA_EXEC_CHECK, .status = &status}));
  EXPECT_EQ(status, 0u);
  const std::vector<double> k = vector_at(store.k.data, 0, 0);
  EXPECT_TRUE(std::isnan(k[0]));
  EXPECT_EQ((std::vector<double>(k.begin() + 1, k.begin() + 9)),
            (std::vector<double>{448, -448, 448, -448, 0, 0, 448, 448}));
  for (double x : vector_at(store.k.data, 0, 1)) EXPECT_EQ(x, 0);
}

TEST(KvAppend, NarrowCodecsStoreWhatCameBitByBit) {
  Rng rng = test_rng();
  Store store({.d_rope = 8}, rng);
  const Tokens tokens(store, {9}, rng);
  for (int64_t i = 0; i < tokens.k.size(); ++i) {
    const uint16_t bits = static_cast<uint16_t>(0x7F81 + i);  // signalling NaNs, negative NaNs, ...
    std::memcpy(tokens.k.at(i), &bits, 2);
  }
  ASSERT_TRUE(run(context(), tokens.params(store)));
  for (int64_t h = 0; h < 2; ++h) {
    for (int64_t i = 0; i < 40; ++i) {
      const void* at = i < 32 ? store.k.data.at((9 * 2 + h) * 32 + i) : store.k_rope.at((9 * 2 + h) * 8 + i - 32);
      EXPECT_EQ(std::memcmp(at, tokens.k.at(h * 40 + i), 2), 0);
    }
  }
}

// DeepSeek's record of 656 bytes: 512 e4m3, 4 scales of 128 dims, 64 bf16.
TEST(KvAppend, MlaRecordsHoldCodesScalesAndRopeSideBySide) {
  constexpr int64_t kRecord = 656, kPage = 64, kPages = 3;
  Rng rng = test_rng();
  Guarded memory(static_cast<size_t>(kRecord * kPage * kPages));
  fovea::Kv kv;
  kv.heads = 1;
  kv.d_k = 576;
  kv.d_v = 512;
  kv.page_size = kPage;
  kv.pages = kPages;
  kv.v_in_k = 1;
  const auto part = [&](int64_t offset) {
    return fovea::KvStream{memory.data() + offset, kRecord * kPage, kRecord, 0};
  };
  kv.k = {.codec = FOVEA_CODEC_FP8, .scale_kind = FOVEA_SCALE_GROUP, .scale_dtype = FOVEA_F32, .scale_group = 128};
  kv.k.data = part(0);
  kv.k.scale = part(512);
  kv.d_rope = 64;
  kv.rope_dtype = FOVEA_BF16;
  kv.k_rope = part(528);
  const TensorBox k(FOVEA_BF16, {2, 1, 576});
  k.assign(draw(rng, Values::normal, 2, 576));
  const TensorBox slots = indices({130, 5});
  ASSERT_TRUE(run(context(), KvAppendParams{.k = k, .kv = &kv, .slot_mapping = slots}));
  for (int64_t t = 0; t < 2; ++t) {
    const std::byte* record = memory.data() + (t ? 5 : 130) * kRecord;
    for (int64_t i = 0; i < 512; ++i) {
      float scale = 0, most = 0;
      std::memcpy(&scale, record + 512 + i / 128 * 4, 4);
      for (int64_t j = i / 128 * 128; j < i / 128 * 128 + 128; ++j) {
        most = std::max(most, std::fabs(static_cast<float>(k.get(t * 576 + j))));
      }
      ASSERT_EQ(scale, most / 448.0f);
      ASSERT_EQ(fovea::oracle::decode(FOVEA_E4M3, record + i),
                round_to(FOVEA_E4M3, static_cast<float>(k.get(t * 576 + i)) / scale));
    }
    ASSERT_EQ(std::memcmp(record + 528, k.at(t * 576 + 512), 128), 0);
  }
  const TensorBox v(FOVEA_BF16, {2, 1, 512});
  EXPECT_EQ(run(context(), KvAppendParams{.k = k, .v = v, .kv = &kv, .slot_mapping = slots}).message,
            "v is given: V is part of K (kv.v_in_k)");
}

// C09, C14, D19: pages of a packed pool far apart, past 2^31 elements.
TEST(KvAppend, C14_OffsetsPastTwoToThe31) {
  constexpr int64_t kPageStride = (int64_t{1} << 31) + 4096;
  const Sparse memory(static_cast<size_t>(kPageStride * 4));
  fovea::Kv kv;
  kv.heads = 1;
  kv.d_k = kv.d_v = 16;
  kv.page_size = 1;
  kv.pages = 4;
  kv.k = {.codec = FOVEA_CODEC_BF16};
  kv.k.data = {memory.data(), kPageStride, 0, 0};
  kv.v = {.codec = FOVEA_CODEC_BF16};
  kv.v.data = {memory.data() + 32, kPageStride, 0, 0};
  Rng rng = test_rng();
  const TensorBox k(FOVEA_BF16, {2, 1, 16}), v(FOVEA_BF16, {2, 1, 16});
  k.assign(draw(rng, Values::normal, 2, 16));
  v.assign(draw(rng, Values::normal, 2, 16));
  const TensorBox slots = indices({3, 2});
  ASSERT_TRUE(run(context(), KvAppendParams{.k = k, .v = v, .kv = &kv, .slot_mapping = slots}));
  for (int64_t t = 0; t < 2; ++t) {
    EXPECT_EQ(std::memcmp(memory.data() + (3 - t) * kPageStride, k.at(t * 16), 32), 0);
    EXPECT_EQ(std::memcmp(memory.data() + (3 - t) * kPageStride + 32, v.at(t * 16), 32), 0);
  }
  EXPECT_EQ(memory.data()[0], std::byte{0});
}

TEST(KvAppend, QIsConvertedInPlaceOrNotAtAll) {
  Rng rng = test_rng();
  Store store({}, rng);
  const Tokens tokens(store, {0, -1}, rng);
  Fused f = fuse(store, tokens, rng, 3);
  f.params.rope = &f.rope;
  const TensorBox apart(FOVEA_BF16, {2, 3, 40});
  f.params.q_out = apart;
  ASSERT_TRUE(run(context(), f.params));
  f.params.q_out = f.q;
  ASSERT_TRUE(run(context(), f.params));
  EXPECT_EQ(f.q.bits(), apart.bits());
  // Without a norm and without rope q is copied.
  KvAppendParams plain = tokens.params(store);
  plain.q = f.q;
  plain.q_out = f.q_out;
  ASSERT_TRUE(run(context(), plain));
  EXPECT_EQ(f.q_out.values(), f.q.values());
  // K alone may have a norm, Q alone too.
  f.params.q_norm_weight = {};
  EXPECT_TRUE(run(context(), f.params));
  f.params.q_norm_weight = f.q_weight;
  f.params.k_norm_weight = {};
  EXPECT_TRUE(run(context(), f.params));
}

}  // namespace
