// SPDX-License-Identifier: Apache-2.0
// The CPU's two kernels of attention, each by force, over bf16: options, layouts and values against the oracle; what a
// plan chooses; whose bits depend on what. The AMX part is skipped where the processor or this build has none.
#include <algorithm>
#include <cmath>
#include <limits>

#include "conformance/attention_random.h"
#include "oracle/numbers.h"
#include "support/attention_cases.h"
#include "support/check.h"

namespace fovea::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr const char* kKernels[] = {"cpu_tiles", "cpu_amx"};

AttentionCase bf16(AttentionCase c) {
  c.q_dtype = FOVEA_BF16;
  for (KvSpec& kv : c.kv) {
    kv.k = kv.v = {.codec = FOVEA_CODEC_BF16};
    kv.d_rope = 0;
  }
  c.options.q_scale = 1;
  return c;
}

// 40 and 9 queries, of three heads each: row tiles and pairs of them end in the middle.
AttentionCase small(int32_t mask = FOVEA_MASK_CAUSAL, int32_t d_k = 64, int32_t d_v = 64) {
  AttentionCase c = bf16(simple_case({40, 9}, {170, 75}, 6, 2, d_k, d_v));
  c.options.mask = mask;
  c.sinks = false;
  return c;
}

// The context of the best instruction set, if that may use AMX.
const Backend* amx_backend(std::string& why_not) {
  Rng rng = test_rng();
  AttentionProblem problem(small(), rng);
  problem.params.kernel = "cpu_amx";
  for (const Backend& backend : backends()) {
    const Support support = supports(backend, problem.params);
    if (support) return &backend;
    if (why_not.empty()) why_not = support.reason;
  }
  return nullptr;
}

#define AMX_BACKEND_OR_SKIP(backend)                                                \
  std::string why_not;                                                              \
  const Backend* const backend##_ = amx_backend(why_not);                           \
  if (backend##_ == nullptr) GTEST_SKIP() << "AMX is not tested here: " << why_not; \
  const Backend& backend = *backend##_

// Both kernels by force, and the plan's own choice.
void check_both(const Backend& backend, const AttentionCase& c, Rng& rng) {
  SCOPED_TRACE(c.text() + "; " + seed_note());
  AttentionProblem problem(c, rng);
  for (const char* kernel : {kKernels[0], kKernels[1], static_cast<const char*>(nullptr)}) {
    problem.params.kernel = kernel;
    const Support support = supports(backend, problem.params);
    const bool too_wide = std::max(c.kv[0].d_k, c.kv[0].d_v) > 256;
    ASSERT_EQ(static_cast<bool>(support), !(too_wide && kernel == kKernels[1])) << support.reason;
    if (!support) continue;
    problem.poison_outputs();
    const Outcome result = run(backend, problem.params);
    ASSERT_TRUE(result) << result.message;
    EXPECT_TRUE(problem.right()) << (kernel ? kernel : "chosen");
  }
}

TEST(AttentionAmx, Masks) {
  AMX_BACKEND_OR_SKIP(backend);
  Rng rng = test_rng();
  for (int32_t mask : {FOVEA_MASK_NONE, FOVEA_MASK_CAUSAL, FOVEA_MASK_WINDOW, FOVEA_MASK_CHUNK}) {
    for (bool bits : {false, true}) {
      AttentionCase c = small(mask);
      if (mask == FOVEA_MASK_WINDOW) c.options.window_left = 37, c.options.window_right = 3;
      if (mask == FOVEA_MASK_CHUNK) c.options.chunk_size = 50, c.options.chunk_origin = 3;
      if (bits) c.mask_lens = {100, 75};
      c.q_values = Values::peaked;
      check_both(backend, c, rng);
    }
  }
}

TEST(AttentionAmx, Options) {
  AMX_BACKEND_OR_SKIP(backend);
  Rng rng = test_rng();
  const auto check = [&](auto change) {
    AttentionCase c = small();
    change(c);
    check_both(backend, c, rng);
  };
  check([](AttentionCase& c) { c.options.softcap = 10; });
  check([](AttentionCase& c) { c.alibi = true; });
  check([](AttentionCase& c) { c.alibi = c.alibi_batch = c.sinks = true; });
  check([](AttentionCase& c) { c.sinks = true; });
  check([](AttentionCase& c) { c.options.scale = -0.3f; });
  check([](AttentionCase& c) { c.options.scale = 1.5f; });
  check([](AttentionCase& c) { c.options.split_size = 64; });
  check([](AttentionCase& c) { c.options.split_size = 4096, c.options.softcap = 5, c.alibi = c.sinks = true; });
  for (int32_t out : {FOVEA_F32, FOVEA_F16, FOVEA_BF16, FOVEA_E4M3}) {
    check([=](AttentionCase& c) { c.out_dtype = out; });
  }
  check([](AttentionCase& c) { c.padded = true, c.pad_front = 3, c.pad_back = 2, c.any_layout = true; });
  check([](AttentionCase& c) { c.kv[0].starts = {100, 0}; });
  check([](AttentionCase& c) { c.kv[0].shard_world = 3, c.kv[0].shard_rank = 1, c.kv[0].shard_interleave = 5; });
  check([](AttentionCase& c) { c.q_lens = {200, 0}; });  // more queries than keys, and none
  check([](AttentionCase& c) { c.kv[0].lens = {0, 75}; });
  check([](AttentionCase& c) { c.kv.push_back(c.kv[0]), c.kv[1].lens = {65, 3}; });
}

TEST(AttentionAmx, HeadDims) {
  AMX_BACKEND_OR_SKIP(backend);
  Rng rng = test_rng();
  for (int32_t d : {1, 2, 3, 15, 16, 17, 31, 33, 48, 63, 65, 80, 96, 112, 128, 144, 160, 192, 255, 256, 264}) {
    check_both(backend, small(FOVEA_MASK_CAUSAL, d, d), rng);
  }
  for (const auto& [d_k, d_v] : {std::pair(192, 128), {1, 256}, {256, 1}, {40, 200}, {128, 17}}) {
    check_both(backend, small(FOVEA_MASK_NONE, d_k, d_v), rng);
  }
}

TEST(AttentionAmx, Layouts) {
  AMX_BACKEND_OR_SKIP(backend);
  Rng rng = test_rng();
  for (KvLayout layout : kPlainLayouts) {
    for (int32_t page_size : {1, 3, 16, 64}) {
      AttentionCase c = small();
      c.kv[0].layout = layout;
      c.kv[0].page_size = page_size;
      check_both(backend, c, rng);
    }
  }
  for (KvIndex index : {KvIndex::csr, KvIndex::contiguous, KvIndex::ragged}) {
    AttentionCase c = small();
    c.kv[0].index = index;
    check_both(backend, c, rng);
  }
  for (int32_t group : {1, 4, 7, 71}) {
    AttentionCase c = small();
    c.heads = 2 * group;
    check_both(backend, c, rng);
  }
}

// Subnormal V too, which AMX takes for 0.
TEST(AttentionAmx, Values) {
  AMX_BACKEND_OR_SKIP(backend);
  Rng rng = test_rng();
  for (Values k : kAllValues) {
    for (Values v : kAllValues) {
      AttentionCase c = small();
      c.k_values = k;
      c.v_values = v;
      check_both(backend, c, rng);
    }
  }
}

TEST(AttentionAmx, RandomCalls) {
  AMX_BACKEND_OR_SKIP(backend);
  const int64_t cases = env_number("FOVEA_FUZZ_CASES", static_cast<int64_t>(100 * effort()));
  for (int64_t i = 0; i < cases && !HasFailure(); ++i) {
    Rng rng = test_rng(static_cast<uint64_t>(i));
    AttentionCase c = bf16(random_attention(rng));
    for (int64_t& n : c.q_lens) n *= 5;
    check_both(backend, c, rng);
  }
}

// Keys that only one row sees, and no row: NaN and Inf there stay there. Row i sees the keys up to 20 + i.
TEST(AttentionAmx, WhatARowDoesNotSeeDoesNotMatter) {
  AMX_BACKEND_OR_SKIP(backend);
  Rng rng = test_rng();
  for (double bad : {std::nan(""), kInf, -kInf}) {
    for (bool in_k : {false, true}) {
      AttentionCase c = bf16(simple_case({50}, {70}, 2, 1, 40, 40));
      c.options.mask = FOVEA_MASK_CAUSAL;
      c.kv[0].index = KvIndex::contiguous;
      AttentionProblem problem(c, rng);
      problem.params.kernel = "cpu_amx";
      ASSERT_TRUE(run(backend, problem.params));
      const auto before = problem.out.values();
      std::vector<double> k(40, 0.5), v(40, 0.5);
      (in_k ? k : v)[7] = bad;
      problem.caches[0]->write(0, 60, k, v, rng);  // seen from query 40 on
      problem.poison_outputs();
      ASSERT_TRUE(run(backend, problem.params));
      for (int64_t row = 0; row < 50; ++row) {
        for (int64_t i = row * 80; i < (row + 1) * 80; ++i) {
          const double got = problem.out.get(i);
          SCOPED_TRACE("row " + std::to_string(row) + ", " + std::to_string(bad));
          if (row < 40) {
            ASSERT_EQ(got, before[static_cast<size_t>(i)]);
          } else if (!in_k && i % 40 != 7) {
            ASSERT_TRUE(std::isfinite(got));
          } else if (!in_k) {
            ASSERT_TRUE(std::isnan(bad) ? std::isnan(got) : got == bad) << got;
          }
        }
      }
    }
  }
}

// Rows [from, to) of a problem's only sequence, as a call of its own.
std::vector<double> rows_alone(const Backend& backend, const AttentionProblem& whole, int64_t from, int64_t to) {
  fovea_attention_params p = whole.params;
  fovea_kv kv = whole.kvs[0];
  p.kv = &kv;
  p.q = slice(p.q, 0, from, to);
  TensorBox out(FOVEA_F32, {to - from, p.q.shape[1], p.out.shape[2]}), lse(FOVEA_F32, {to - from, p.q.shape[1]});
  p.out = out;
  p.lse = lse;
  const TensorBox cu = indices({0, to - from});
  p.cu_seqlens_q = cu;
  const oracle::Sequence s = oracle::sequence_of(whole.params, 0);
  const TensorBox lens = indices({s.len - (s.n - to)});
  kv.kv_lens = lens;
  const Outcome result = run(backend, p);
  EXPECT_TRUE(result) << result.message;
  return out.values();
}

// By force every row takes AMX: then bits do not depend on chunks, flag or not.
TEST(AttentionAmx, BitsDoNotDependOnChunks) {
  AMX_BACKEND_OR_SKIP(backend);
  Rng rng = test_rng();
  for (int32_t mask : {FOVEA_MASK_CAUSAL, FOVEA_MASK_WINDOW}) {
    for (int32_t d : {64, 40}) {
      AttentionCase c = bf16(simple_case({75}, {300}, 6, 2, d, d));
      c.options.mask = mask;
      c.options.split_size = 128;
      if (mask == FOVEA_MASK_WINDOW) c.options.window_left = 90, c.options.window_right = 0;
      c.poison = false;
      AttentionProblem whole(c, rng);
      whole.params.kernel = "cpu_amx";
      ASSERT_TRUE(run(backend, whole.params));
      const auto want = whole.out.values();
      for (int64_t chunk : {1, 7, 32, 50}) {
        for (int64_t from = 0; from < 75; from += chunk) {
          const int64_t to = std::min<int64_t>(from + chunk, 75);
          const auto got = rows_alone(backend, whole, from, to);
          ASSERT_TRUE(std::equal(got.begin(), got.end(), want.begin() + from * 6 * d)) << chunk << " from " << from;
        }
      }
    }
  }
}

// Unforced, a sequence's own queries decide: alone or beside others a row has the same bits.
TEST(AttentionAmx, BitsDoNotDependOnBatchMates) {
  AMX_BACKEND_OR_SKIP(backend);
  Rng rng = test_rng();
  AttentionCase c = bf16(simple_case({1, 40, 5, 90, 2}, {400, 140, 200, 90, 33}, 8, 2, 64, 64));
  c.options.mask = FOVEA_MASK_CAUSAL;
  c.options.batch_invariant = 1;
  AttentionProblem whole(c, rng);
  ASSERT_TRUE(run(backend, whole.params));
  const auto want = whole.out.values();
  for (int64_t b = 0; b < 5; ++b) {
    const oracle::Sequence s = oracle::sequence_of(whole.params, b);
    fovea_attention_params p = whole.params;
    fovea_kv kv = whole.kvs[0];
    p.kv = &kv;
    p.q = slice(p.q, 0, s.first_row, s.first_row + s.n);
    const TensorBox out(FOVEA_F32, {s.n, 8, 64}), lse(FOVEA_F32, {s.n, 8});
    const TensorBox cu = indices({0, s.n}), lens = indices({s.len});
    p.out = out;
    p.lse = lse;
    p.cu_seqlens_q = cu;
    kv.page_table = slice(kv.page_table, 0, b, b + 1);
    kv.kv_lens = lens;
    for (const char* kernel : {static_cast<const char*>(nullptr), kKernels[0], kKernels[1]}) {
      p.kernel = kernel;
      ASSERT_TRUE(run(backend, p));
      const auto got = out.values();
      const bool same = std::equal(got.begin(), got.end(), want.begin() + s.first_row * 8 * 64);
      // Many rows by AMX, few by the other kernel: the case tells them apart.
      const bool expected = kernel == nullptr || (kernel == kKernels[1]) == (s.n * 4 >= 9);
      ASSERT_EQ(same, expected) << (kernel ? kernel : "chosen") << ", sequence " << b;
    }
  }
}

TEST(AttentionAmx, PlansSayWhichKernelServes) {
  AMX_BACKEND_OR_SKIP(backend);
  Rng rng = test_rng();
  const auto explained = [&](auto change) {
    AttentionCase c = small();
    change(c);
    AttentionProblem problem(c, rng);
    return TestPlan(backend, problem.params).explain();
  };
  EXPECT_TRUE(explained([](AttentionCase&) {}).starts_with("attention: cpu_amx"));
  EXPECT_TRUE(names(explained([](AttentionCase&) {}), "at least 9 rows per kv head"));
  const auto other = [&](auto change) { return explained(change).starts_with("attention: cpu_tiles"); };
  EXPECT_TRUE(other([](AttentionCase& c) { c.options.chunk_invariant = 1; }));
  EXPECT_TRUE(other([](AttentionCase& c) { c.q_lens = {1, 1}; }));  // 6 rows
  EXPECT_TRUE(other([](AttentionCase& c) { c.q_dtype = FOVEA_F32; }));
  EXPECT_TRUE(other([](AttentionCase& c) { c.kv[0].k.codec = FOVEA_CODEC_F16; }));
  EXPECT_TRUE(other([](AttentionCase& c) { c.kv[0].v = {FOVEA_CODEC_BF16, FOVEA_SCALE_HEAD, FOVEA_F32, 0}; }));
  EXPECT_TRUE(other([](AttentionCase& c) { c.kv[0].d_k = 264; }));
}

TEST(AttentionAmx, IsRefusedByNameWhereItCannotServe) {
  Rng rng = test_rng();
  std::string why_not;
  const Backend* const best = amx_backend(why_not);
  AttentionProblem plain(small(), rng);
  plain.params.kernel = "cpu_amx";
  for (const Backend& backend : backends()) {
    if (&backend == best) continue;
    const Outcome result = run(backend, plain.params);
    EXPECT_EQ(result.code, FOVEA_UNSUPPORTED) << backend.name;
    EXPECT_TRUE(names(result.message, "cpu_amx")) << result.message;
    EXPECT_TRUE(names(result.message, "isa AVX3")) << result.message;
  }
  if (best == nullptr) GTEST_SKIP() << "AMX is not tested here: " << why_not;
  AttentionCase wide = small();
  wide.kv[0].k.codec = FOVEA_CODEC_F32;
  AttentionProblem problem(wide, rng);
  problem.params.kernel = "cpu_amx";
  const Outcome result = run(*best, problem.params);
  EXPECT_EQ(result.code, FOVEA_UNSUPPORTED);
  EXPECT_TRUE(names(result.message, "bf16")) << result.message;
}

}  // namespace
}  // namespace fovea::test
