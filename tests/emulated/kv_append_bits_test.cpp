// SPDX-License-Identifier: Apache-2.0
// Bytes that kv_append stores: those of the device's kernel are the CPU's, from a given x. (A norm's sum has an order
// of its own on each, so none is asked for here.)
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "emulated/backend.h"
#include "support/backends.h"
#include "support/kv_append_cases.h"

namespace fovea::test {
namespace {

constexpr int32_t kFloats[] = {FOVEA_F32, FOVEA_F16, FOVEA_BF16};

SideSpec random_side(Rng& rng, int32_t dims) {
  SideSpec side;
  side.codec = rng.pick({FOVEA_CODEC_F32, FOVEA_CODEC_F16, FOVEA_CODEC_BF16, FOVEA_CODEC_FP8, FOVEA_CODEC_FP8});
  side.scale_kind = side.codec == FOVEA_CODEC_FP8
                        ? rng.pick({FOVEA_SCALE_TENSOR, FOVEA_SCALE_HEAD, FOVEA_SCALE_TOKEN_HEAD, FOVEA_SCALE_GROUP})
                        : rng.pick({FOVEA_SCALE_NONE, FOVEA_SCALE_NONE, FOVEA_SCALE_TENSOR, FOVEA_SCALE_HEAD});
  side.scale_dtype = rng.pick({FOVEA_F32, FOVEA_F16, FOVEA_BF16});
  if (side.scale_kind == FOVEA_SCALE_GROUP) {
    side.scale_group = static_cast<int32_t>(rng.pick<int64_t>({1, 3, 8, 16, 128}));
    side.scale_group = std::min(side.scale_group, dims);
  }
  return side;
}

AppendCase random_case(Rng& rng) {
  AppendCase c;
  c.tokens = rng.integer(1, 9);
  c.dtype = rng.pick(std::vector<int32_t>(std::begin(kFloats), std::end(kFloats)));
  c.kv.heads = static_cast<int32_t>(rng.integer(1, 5));
  const bool even = rng.chance(0.6);
  const auto dims = [&] {
    return static_cast<int32_t>(even ? rng.pick<int64_t>({16, 64, 80, 128, 192, 576, 1024}) : rng.integer(3, 200));
  };
  c.kv.d_k = dims();
  c.kv.d_v = dims();
  c.kv.page_size = rng.pick({1, 4, 16});
  c.kv.layout = rng.pick({KvLayout::nhd, KvLayout::hnd, KvLayout::reversed});
  if (rng.chance(0.3)) {
    c.kv.v_in_k = true;
    c.kv.layout = KvLayout::nhd;
    c.kv.d_k = even ? 576 : 70;
    c.kv.d_rope = even ? 64 : 6;
    c.kv.d_v = even ? 512 : 64;
    c.kv.rope_dtype = rng.pick({FOVEA_F32, FOVEA_F16, FOVEA_BF16});
  }
  c.kv.k = random_side(rng, c.kv.d_k - c.kv.d_rope);
  if (!c.kv.v_in_k) c.kv.v = random_side(rng, c.kv.d_v);
  c.q_heads = static_cast<int32_t>(rng.integer(0, 6));
  c.q_dtype = rng.pick({FOVEA_F32, FOVEA_F16, FOVEA_BF16});
  c.with_rope = rng.chance(0.7);
  const int32_t turned = c.kv.d_rope ? c.kv.d_rope : c.kv.d_k;
  c.rope.style = rng.pick({FOVEA_ROPE_NEOX, FOVEA_ROPE_GPTJ});
  c.rope.rotary_dim = std::min(turned / 2 * 2, 576);
  if (turned >= 32 && rng.chance(0.4)) c.rope.rotary_dim = static_cast<int32_t>(rng.pick<int64_t>({8, 16, 22, 32}));
  c.index_dtype = rng.pick({FOVEA_I32, FOVEA_I64});
  c.any_layout = rng.chance(0.5);
  c.values = rng.pick(std::vector<Values>(std::begin(kAllValues), std::end(kAllValues)));
  return c;
}

// NaN of every kind, infinities, and numbers at the ends of the narrow types.
void spoil(AppendProblem& problem, Rng& rng) {
  const std::pair<TensorBox*, int32_t> boxes[] = {
      {&problem.k, problem.c.dtype}, {&problem.v, problem.c.dtype}, {&problem.q, problem.c.q_dtype}};
  for (const auto& [box, dtype] : boxes) {
    for (int i = 0; i < 6 && box->size() > 0; ++i) {
      void* element = box->at(rng.integer(0, box->size() - 1));
      const uint64_t bits = rng.bits();
      const auto high = static_cast<uint32_t>(rng.pick<int64_t>({0x7F800000, 0x7FC00000, 0xFF800001, 0x43E00000}));
      const uint32_t wide = high | (rng.chance(0.5) ? static_cast<uint32_t>(bits & 0xFFFF) : 0);
      const auto half = static_cast<uint16_t>(rng.pick<int64_t>({0x7C00, 0x7C01, 0xFE00, 0x7F81, 0xFF80, 0x7FC1}));
      if (dtype == FOVEA_F32) {
        std::memcpy(element, &wide, 4);
      } else {
        std::memcpy(element, &half, 2);
      }
    }
  }
}

struct Outcome {
  std::vector<std::byte> cache, q;
  uint32_t status = 0;
};

Outcome append(const Context& context, AppendProblem& problem) {
  Outcome out;
  problem.q_out.memory().fill(kPoison);
  Exec exec;
  exec.status = &out.status;
  const Result result = run(context, problem.params, exec);
  EXPECT_TRUE(result) << result.message;
  out.cache = problem.cache.bytes();
  if (problem.c.q_heads) out.q = problem.q_out.bits();
  problem.wipe();
  return out;
}

TEST(KvAppendBits, AreTheCpus) {
  Rng rng = test_rng();
  SCOPED_TRACE(seed_note());
  const Context cpu = cpu_context(1), device = cpu_context(1);
  emulated::replace_operations(device.get());
  for (int i = 0; i < 400; ++i) {
    const AppendCase c = random_case(rng);
    AppendProblem problem(c, rng);
    if (c.with_rope) {
      for (int64_t t = 0; t < c.tokens; ++t) {  // as far as positions go
        const int64_t far = rng.pick<int64_t>({0, 1, 4095, 1000003, rng.integer(0, INT32_MAX)});
        std::memcpy(problem.positions.at(t), &far, c.index_dtype == FOVEA_I32 ? 4 : 8);
      }
    }
    // Arithmetic may give a NaN any sign and payload, encoding may not.
    if (!c.with_rope) spoil(problem, rng);
    const Outcome want = append(cpu, problem), got = append(device, problem);
    ASSERT_EQ(want.cache, got.cache) << "case " << i << ", d " << c.kv.d_k << "/" << c.kv.d_v << ", rotary "
                                     << (c.with_rope ? c.rope.rotary_dim : 0) << ", style " << c.rope.style
                                     << ", codecs " << c.kv.k.codec << "/" << c.kv.v.codec;
    ASSERT_EQ(want.q, got.q) << "case " << i;
    ASSERT_EQ(want.status, got.status) << "case " << i;
  }
}

}  // namespace
}  // namespace fovea::test
