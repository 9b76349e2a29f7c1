// SPDX-License-Identifier: Apache-2.0
// Equal bits: for any number of threads, with batch mates or alone, whatever the capacity, cut into chunks or whole;
// and plans that serve many calls.
#include <algorithm>
#include <cmath>
#include <utility>

#include "support/attention_cases.h"
#include "support/check.h"

namespace fovea::test {
namespace {

AttentionCase mixed() {
  AttentionCase c = simple_case({1, 4, 17, 1, 2}, {400, 33, 17, 0, 129}, 6, 2, 64, 48);
  c.options.mask = FOVEA_MASK_CAUSAL;
  c.q_dtype = c.out_dtype = FOVEA_BF16;
  c.kv[0].k.codec = FOVEA_CODEC_BF16;
  c.kv[0].v = {FOVEA_CODEC_FP8, FOVEA_SCALE_TOKEN_HEAD, FOVEA_F32, 0};
  c.sinks = true;
  return c;
}

// Sequence b of a ragged problem over a page table, as a batch of its own over the same memory: queries [from, to) of
// it, and the keys up to the last of them.
struct Alone {
  fovea_attention_params params;
  fovea_kv kv;
  TensorBox out, lse, cu_seqlens_q, kv_lens;

  Alone(const AttentionProblem& whole, int64_t b, int64_t from, int64_t to) : params(whole.params), kv(whole.kvs[0]) {
    const oracle::Sequence s = oracle::sequence_of(whole.params, b);
    params.q = slice(params.q, 0, s.first_row + from, s.first_row + to);
    const int64_t heads = params.q.shape[1];
    out = TensorBox(params.out.dtype, {to - from, heads, params.out.shape[2]});
    lse = TensorBox(FOVEA_F32, {to - from, heads});
    params.out = out;
    params.lse = lse;
    cu_seqlens_q = indices({0, to - from});
    params.cu_seqlens_q = cu_seqlens_q;
    kv.page_table = slice(kv.page_table, 0, b, b + 1);
    kv_lens = indices({s.len - (s.n - to)});
    kv.kv_lens = kv_lens;
    params.kv = &kv;
  }
};

void expect_same_rows(const AttentionProblem& whole, int64_t first_row, const Alone& part, const std::string& note) {
  const fovea_tensor rows = slice(whole.params.out, 0, first_row, first_row + part.params.out.shape[0]);
  const fovea_tensor lses = slice(whole.params.lse, 0, first_row, first_row + part.params.out.shape[0]);
  EXPECT_EQ(values_of(rows), part.out.values()) << note;
  EXPECT_EQ(values_of(lses), part.lse.values()) << note;
}

// A pool of the caller: 5 helpers, and the tasks run backwards on the calling thread.
fovea_thread_pool backwards_pool() {
  fovea_thread_pool pool;
  pool.count = [](void*) -> int32_t { return 5; };
  pool.run = [](void*, void (*task)(void*, int64_t), void* arg, int64_t n) {
    for (int64_t i = n - 1; i >= 0; --i) task(arg, i);
  };
  return pool;
}

TEST(AttentionBits, DoNotDependOnThreads) {
  Rng rng = test_rng();
  const std::string isa = backends().front().context.info().isa;
  for (int32_t split : {0, 64}) {
    AttentionCase c = mixed();
    c.options.split_size = split;
    AttentionProblem problem(c, rng);
    ASSERT_TRUE(check_attention(problem));
    ASSERT_TRUE(run(cpu_context(1, isa.c_str()), problem.params));
    const auto one = problem.result_bits();
    for (int32_t threads : {2, 3, 7}) {
      problem.poison_outputs();
      ASSERT_TRUE(run(cpu_context(threads, isa.c_str()), problem.params));
      EXPECT_EQ(one, problem.result_bits()) << threads << " threads, split " << split;
    }
    const fovea_thread_pool pool = backwards_pool();
    ContextParams params;
    params.pool = &pool;
    params.isa = isa.c_str();
    problem.poison_outputs();
    ASSERT_TRUE(run(Context(params), problem.params));
    EXPECT_EQ(one, problem.result_bits()) << "own pool, split " << split;
  }
}

TEST(AttentionBits, DoNotDependOnEarlierCalls) {
  Rng rng = test_rng();
  AttentionProblem a(mixed(), rng), b(simple_case({3}, {50}, 2, 1, 128, 128), rng);
  for (const Backend& backend : backends(FOVEA_OP_ATTENTION)) {
    RUN_OR_CONTINUE(run(backend, a.params));
    const auto first = a.result_bits();
    for (int i = 0; i < 5; ++i) {
      RUN_OR_CONTINUE(run(backend, b.params));
      RUN_OR_CONTINUE(run(backend, a.params));
      ASSERT_EQ(first, a.result_bits()) << backend.name;
    }
  }
}

// H01, K01: each row of a packed batch has the bits it has alone.
TEST(BugCorpus, K01_H01_BatchMatesDoNotMatter) {
  Rng rng = test_rng();
  for (int32_t split : {0, 48}) {
    AttentionCase c = mixed();
    c.options.batch_invariant = 1;
    c.options.split_size = split;
    AttentionProblem whole(c, rng);
    for (const Backend& backend : backends(FOVEA_OP_ATTENTION)) {
      RUN_OR_CONTINUE(run(backend, whole.params));
      for (int64_t b = 0; b < 5; ++b) {
        const oracle::Sequence s = oracle::sequence_of(whole.params, b);
        const Alone alone(whole, b, 0, s.n);
        RUN_OR_CONTINUE(run(backend, alone.params));
        expect_same_rows(whole, s.first_row, alone, backend.name + ", sequence " + std::to_string(b));
      }
    }
  }
}

// One request repeated: every copy has the same bits at every batch size.
TEST(BugCorpus, K02_BatchSizes) {
  Rng rng = test_rng();
  AttentionCase c = simple_case({1}, {333}, 8, 2, 64, 64);
  c.kv[0].k.codec = c.kv[0].v.codec = FOVEA_CODEC_BF16;
  c.options.batch_invariant = 1;
  AttentionProblem one(c, rng);
  for (const Backend& backend : backends(FOVEA_OP_ATTENTION)) {
    RUN_OR_CONTINUE(run(backend, one.params));
    const auto want = one.out.values();
    for (int64_t batch = 1; batch <= 32; ++batch) {
      fovea_attention_params p = one.params;
      fovea_kv kv = one.kvs[0];
      p.kv = &kv;
      p.q.shape[0] = batch;
      p.q.stride[0] = 0;  // the same row again
      const TensorBox out(FOVEA_F32, {batch, 8, 64}), lse(FOVEA_F32, {batch, 8});
      p.out = out;
      p.lse = lse;
      std::vector<int64_t> cu(static_cast<size_t>(batch + 1));
      for (size_t i = 0; i < cu.size(); ++i) cu[i] = static_cast<int64_t>(i);
      const TensorBox cu_seqlens_q = indices(cu);
      p.cu_seqlens_q = cu_seqlens_q;
      kv.page_table.shape[0] = kv.kv_lens.shape[0] = batch;
      kv.page_table.stride[0] = kv.kv_lens.stride[0] = 0;
      RUN_OR_CONTINUE(run(backend, p));
      const auto got = out.values();
      for (int64_t b = 0; b < batch; ++b) {
        ASSERT_TRUE(std::equal(want.begin(), want.end(), got.begin() + b * 8 * 64))
            << backend.name << " batch " << batch;
      }
    }
  }
}

// D27: a longer allocation, more pages and wider tables, or a larger bound, change no bit.
TEST(BugCorpus, D27_CapacityDoesNotMatter) {
  Rng rng = test_rng();
  AttentionCase c = mixed();
  c.options.batch_invariant = 1;
  AttentionProblem problem(c, rng);
  for (const Backend& backend : backends(FOVEA_OP_ATTENTION)) {
    RUN_OR_CONTINUE(run(backend, problem.params));
    const auto first = problem.result_bits();
    fovea_attention_params p = problem.params;
    fovea_kv kv = problem.kvs[0];
    p.kv = &kv;
    kv.page_table.shape[1] -= 2;  // the spare columns
    RUN_OR_CONTINUE(run(backend, p));
    EXPECT_EQ(first, problem.result_bits()) << backend.name;
    kv.max_len = 400;
    RUN_OR_CONTINUE(run(backend, p));
    EXPECT_EQ(first, problem.result_bits()) << backend.name;
    const TensorBox wide(FOVEA_I32, {5, 5000});  // -1 everywhere but in front
    for (int64_t b = 0; b < 5; ++b) {
      for (int64_t i = 0; i < kv.page_table.shape[1]; ++i) {
        wide.set(b * 5000 + i, problem.caches[0]->page_table.get(b * problem.kvs[0].page_table.shape[1] + i));
      }
    }
    kv.page_table = wide;
    kv.max_len = 0;
    RUN_OR_CONTINUE(run(backend, p));
    EXPECT_EQ(first, problem.result_bits()) << backend.name;
  }
}

TEST(AttentionBits, DoNotDependOnChunks) {
  Rng rng = test_rng();
  const std::pair<int32_t, int32_t> cases[] = {{FOVEA_MASK_CAUSAL, FOVEA_CODEC_F16},
                                               {FOVEA_MASK_WINDOW, FOVEA_CODEC_F16},
                                               {FOVEA_MASK_CAUSAL, FOVEA_CODEC_F32},
                                               {FOVEA_MASK_CAUSAL, FOVEA_CODEC_BF16},
                                               {FOVEA_MASK_WINDOW, FOVEA_CODEC_FP8}};
  for (const auto& [mask, codec] : cases) {
    AttentionCase c = simple_case({60}, {150}, 6, 2, 64, 64);
    c.kv[0].k.codec = c.kv[0].v.codec = codec;
    if (codec == FOVEA_CODEC_FP8) c.kv[0].k.scale_kind = c.kv[0].v.scale_kind = FOVEA_SCALE_TOKEN_HEAD;
    c.options.mask = mask;
    if (codec != FOVEA_CODEC_F16) c.options.softcap = 20, c.alibi = true;
    if (mask == FOVEA_MASK_WINDOW) c.options.window_left = 40, c.options.window_right = 0;
    c.options.batch_invariant = c.options.chunk_invariant = 1;
    c.poison = false;
    AttentionProblem whole(c, rng);
    ASSERT_TRUE(check_attention(whole));
    for (const Backend& backend : backends(FOVEA_OP_ATTENTION)) {
      RUN_OR_CONTINUE(run(backend, whole.params));
      for (int64_t chunk : {1, 7, 16, 33}) {
        for (int64_t from = 0; from < 60; from += chunk) {
          const Alone part(whole, 0, from, std::min<int64_t>(from + chunk, 60));
          RUN_OR_CONTINUE(run(backend, part.params));
          expect_same_rows(whole, from, part,
                           backend.name + ", chunk of " + std::to_string(chunk) + " from " + std::to_string(from));
        }
      }
    }
  }
}

// The kernel of few rows multiplies e4m3 by a power of two late, unless Q or the scales of V are large.
TEST(AttentionBits, OfFp8DoNotDependOnChunks) {
  Rng rng = test_rng();
  for (int32_t d : {64, 40}) {
    for (int32_t heads : {2, 8, 16}) {
      for (const auto& [q_factor, v_factor] : {std::pair(1.0, 1.0f), {300.0, 1.0f}, {1.0, 0x1p20f}}) {
        AttentionCase c = simple_case({40}, {150}, heads, 2, d, d);
        c.kv[0].k = c.kv[0].v = {FOVEA_CODEC_FP8, FOVEA_SCALE_HEAD, FOVEA_F32, 0};
        c.options.mask = FOVEA_MASK_CAUSAL;
        c.options.batch_invariant = c.options.chunk_invariant = 1;
        c.poison = false;
        AttentionProblem whole(c, rng);
        whole.q.fill(
            [factor = q_factor, q = whole.q.values()](int64_t i) { return factor * q[static_cast<size_t>(i)]; });
        const fovea_kv_stream& scales = whole.kvs[0].v.scale;
        for (int64_t h = 0; h < 2; ++h) {
          *reinterpret_cast<float*>(static_cast<char*>(scales.base) + h * scales.head_stride) *= v_factor;
        }
        const std::string note = std::to_string(d) + " dims, " + std::to_string(heads) + " heads, Q times " +
                                 std::to_string(q_factor) + ", V times " + std::to_string(v_factor);
        ASSERT_TRUE(check_attention(whole)) << note;
        for (const Backend& backend : backends(FOVEA_OP_ATTENTION)) {
          RUN_OR_CONTINUE(run(backend, whole.params));
          for (int64_t row = 0; row < 40; ++row) {
            const Alone part(whole, 0, row, row + 1);
            RUN_OR_CONTINUE(run(backend, part.params));
            expect_same_rows(whole, row, part, backend.name + ", " + note + ", row " + std::to_string(row));
          }
        }
      }
    }
  }
}

// D14, D12, D11: one plan shape, then another scale, mask kind, window.
TEST(BugCorpus, D14_D12_D11_NothingIsKeptFromTheCallBefore) {
  Rng rng = test_rng();
  AttentionCase c = simple_case({4}, {600}, 4, 2, 64, 64);
  c.kv[0].k.codec = c.kv[0].v.codec = FOVEA_CODEC_F16;
  c.poison = false;
  c.q_values = Values::peaked;
  AttentionProblem problem(c, rng);
  c.mask_lens = {600};
  AttentionProblem with_bits(c, rng);
  std::vector<fovea_attention_params> variants;
  for (float scale : {0.125f, 0.375f}) {
    for (int32_t mask : {FOVEA_MASK_NONE, FOVEA_MASK_CAUSAL, FOVEA_MASK_CHUNK}) {
      fovea_attention_params p = problem.params;
      p.scale = scale;
      p.mask = mask;
      p.chunk_size = mask == FOVEA_MASK_CHUNK ? 100 : 0;
      variants.push_back(p);
      if (mask != FOVEA_MASK_CHUNK) continue;
      p.chunk_size = 0;
      for (int32_t window : {127, 511}) {
        p.mask = FOVEA_MASK_WINDOW;
        p.window_left = window;
        p.window_right = 0;
        variants.push_back(p);
      }
      variants.push_back(with_bits.params);
      variants.back().scale = scale;
    }
  }
  for (const Backend& backend : backends(FOVEA_OP_ATTENTION)) {
    for (int round = 0; round < 2; ++round) {
      for (const fovea_attention_params& p : variants) {
        const oracle::Attention64 want = oracle::attention64(p);
        RUN_OR_CONTINUE(run(backend, p));
        EXPECT_TRUE(within(p.out, want.out, want.out_bound))
            << backend.name << " mask " << p.mask << " scale " << p.scale;
      }
    }
  }
}

TEST(AttentionPlan, ServesSmallerBatchesAndOtherLengths) {
  Rng rng = test_rng();
  AttentionCase c = mixed();
  c.options.max_q_len = 17;
  AttentionProblem large(c, rng);
  for (const Backend& backend : backends(FOVEA_OP_ATTENTION)) {
    const TestPlan plan(backend, large.params);
    if (plan.outcome().refused) continue;
    for (int64_t b = 0; b < 5; ++b) {
      Alone alone(large, b, 0, oracle::sequence_of(large.params, b).n);
      const oracle::Attention64 want = oracle::attention64(alone.params);
      const Outcome result = plan.run(alone.params);
      if (result.refused) continue;
      ASSERT_TRUE(result) << result.message;
      EXPECT_TRUE(within(alone.out, want.out, want.out_bound)) << backend.name;
      EXPECT_TRUE(within(alone.lse, want.lse, want.lse_bound)) << backend.name;
    }
  }
}

TEST(AttentionPlan, NeedsNoMemoryToPlan) {
  Rng rng = test_rng();
  AttentionProblem problem(mixed(), rng);
  fovea_attention_params p = problem.params;
  fovea_kv kv = problem.kvs[0];
  p.kv = &kv;
  for (fovea_tensor* t : {&p.q, &p.out, &p.lse, &p.cu_seqlens_q, &p.sinks, &kv.page_table, &kv.kv_lens})
    t->data = nullptr;
  for (fovea_kv_stream* s : {&kv.k.data, &kv.v.data, &kv.v.scale}) s->base = nullptr;
  for (const Backend& backend : backends(FOVEA_OP_ATTENTION)) {
    const Support support = supports(backend, p);
    const TestPlan plan(backend, p);
    EXPECT_TRUE(static_cast<bool>(support) != plan.outcome().refused || backend.compiler != nullptr) << support.reason;
    problem.poison_outputs();
    if (plan.outcome().refused) continue;
    RUN_OR_CONTINUE(plan.run(problem.params));
    EXPECT_TRUE(problem.right()) << backend.name;
  }
}

// D29: a run larger than its plan is refused, with both numbers: more sequences and rows, or more sequences alone.
TEST(BugCorpus, D29_RunLargerThanThePlan) {
  Rng rng = test_rng();
  const auto narrow = [](AttentionCase c) {
    c.kv[0].k.codec = c.kv[0].v.codec = FOVEA_CODEC_F16;
    return c;
  };
  AttentionProblem small(narrow(simple_case({1, 1}, {9, 9}, 2, 1, 32, 32)), rng);
  for (int64_t last : {1, 0}) {
    AttentionProblem large(narrow(simple_case({1, 1, last}, {9, 9, 9}, 2, 1, 32, 32)), rng);
    for (const Backend& backend : backends(FOVEA_OP_ATTENTION)) {
      const TestPlan plan(backend, small.params);
      large.poison_outputs();
      const Outcome result = plan.outcome() ? plan.run(large.params) : plan.outcome();
      if (result.refused) continue;
      EXPECT_EQ(result.code, FOVEA_INVALID_VALUE);
      EXPECT_TRUE(names(result.message, "3")) << last;
      EXPECT_TRUE(names(result.message, "2")) << last;
      EXPECT_TRUE(large.outputs_untouched());
    }
  }
}

}  // namespace
}  // namespace fovea::test
