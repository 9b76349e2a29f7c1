// SPDX-License-Identifier: Apache-2.0
// Plans captured once and replayed: the graph is made at length 1, and serves every other length, page table and slot
// that the memory holds by then. Replays follow a slow producer on the same non-blocking stream: a kernel that does not
// wait its turn reads poison. From compute capability 9.0 a second graph launches the call early behind a producer that
// is late. Skipped where there is no card.
#include <numeric>

#include "cuda/calls.h"
#include "cuda/late_producer.h"
#include "oracle/attention64.h"
#include "support/attention_cases.h"
#include "support/check.h"
#include "support/kv_append_cases.h"

namespace fovea::test {
namespace {

constexpr int64_t kLong = 100000;  // keys

class Graph : public OnDevices {
 protected:
  void capture(ResidentCalls& calls) {
    for (auto& one : calls) {
      one->call->upload();
      one->graph = one->device().capture(one->call->exec().stream, [&] {
        EXPECT_EQ(one->plan.launch(*one->call), FOVEA_OK) << one->backend.name << ": " << fovea_last_error();
      });
      EXPECT_GE(one->graph, 0) << one->backend.name << ": " << one->device().finish();
      const LateProducer* producer = LateProducer::instance();
      if (producer == nullptr) continue;
      const Mirror::LateCopy copy = one->call->put_off();
      one->call->set_flags(FOVEA_EXEC_EARLY);
      one->early_graph = one->device().capture(one->call->exec().stream, [&] {
        producer->run(copy, one->call->exec().stream);
        EXPECT_EQ(one->plan.launch(*one->call), FOVEA_OK) << one->backend.name << ": " << fovea_last_error();
      });
      one->call->set_flags(0);
      EXPECT_GE(one->early_graph, 0) << one->backend.name << ": " << one->device().finish();
    }
  }
  // Replays at once, behind a slow producer, and early; `before` and `check` stand around each.
  template <class Before, class Check>
  void replay(ResidentCalls& calls, const Before& before, const Check& check) {
    for (auto& one : calls) {
      const auto one_replay = [&](const char* how, int graph, const auto& upload) {
        SCOPED_TRACE(one->backend.name + how);
        before();
        upload();
        one->device().replay(graph, one->call->exec().stream);
        expect_clean(*one);
        check();
      };
      one_replay("", one->graph, [&] { one->call->upload(); });
      one_replay(", behind a slow producer", one->graph, [&] { one->call->upload_late(); });
      if (one->early_graph < 0) continue;
      one_replay(", early", one->early_graph, [&] { static_cast<void>(one->call->put_off()); });
    }
  }
};

struct Lengths {
  std::vector<int64_t> q, kv;
};

void set(const TensorBox& box, const std::vector<int64_t>& values) {
  for (size_t i = 0; i < values.size(); ++i) box.set(static_cast<int64_t>(i), static_cast<double>(values[i]));
}

// Queries of each sequence, in either form.
void set_queries(AttentionProblem& problem, const std::vector<int64_t>& lens) {
  if (problem.q_lens) return set(problem.q_lens, lens);
  std::vector<int64_t> cu{0};
  for (const int64_t n : lens) cu.push_back(cu.back() + n);
  set(problem.cu_seqlens_q, cu);
}

// Exchanges the pages of two columns of the first row.
void exchange_pages(const TensorBox& table, int64_t a, int64_t b) {
  const double page = table.get(a);
  table.set(a, table.get(b));
  table.set(b, page);
}

class AttentionGraph : public Graph {
 protected:
  // `c` has the longest lengths; the graph is made at `states[0]`.
  void check(AttentionCase c, const std::vector<Lengths>& states) {
    Rng rng = test_rng();
    c.poison = false;
    c.lse = true;
    AttentionProblem problem(c, rng);
    problem.params.max_q_len = c.options.max_q_len;
    const auto prepare = [&](const Lengths& lens) {
      set_queries(problem, lens.q);
      set(problem.caches[0]->kv_lens, lens.kv);
    };
    prepare(states[0]);
    ResidentCalls calls = resident_calls(problem.params);
    if (calls.empty()) GTEST_SKIP() << "no kernel takes the case";
    capture(calls);
    const TensorBox& table = problem.caches[0]->page_table;
    for (const Lengths& lens : states) {
      SCOPED_TRACE("keys of the first sequence: " + std::to_string(lens.kv[0]));
      prepare(lens);
      if (table && lens.kv[0] > 40) exchange_pages(table, 0, 1);
      const oracle::Attention64 want = oracle::attention64(problem.params);
      replay(
          calls, [&] { problem.poison_outputs(); },
          [&] {
            EXPECT_TRUE(within(problem.out, want.out, want.out_bound));
            EXPECT_TRUE(within(problem.lse, want.lse, want.lse_bound));
          });
    }
  }
};

AttentionCase sixteen_bits(std::vector<int64_t> q_lens, std::vector<int64_t> kv_lens, int32_t heads, int32_t dtype) {
  AttentionCase c = simple_case(std::move(q_lens), std::move(kv_lens), heads, 1, 64, 64);
  c.q_dtype = c.out_dtype = c.kv[0].k.codec = c.kv[0].v.codec = dtype;  // the codecs have the numbers of their types
  c.options.mask = FOVEA_MASK_CAUSAL;
  return c;
}

TEST_F(AttentionGraph, DecodeOverPages) {
  AttentionCase c = sixteen_bits({1, 1}, {kLong, 2000}, 4, FOVEA_F16);
  c.options.max_q_len = 1;
  check(c, {{{1, 1}, {1, 1}},
            {{1, 1}, {2, 2000}},
            {{1, 1}, {1023, 1024}},
            {{1, 1}, {1025, 0}},
            {{1, 1}, {kLong, 1999}},
            {{1, 1}, {1, 17}}});
}

TEST_F(AttentionGraph, DecodeInOneBufferWithFixedSplits) {
  AttentionCase c = sixteen_bits({1, 1, 1}, {kLong, 300, 5000}, 4, FOVEA_BF16);
  c.kv[0].index = KvIndex::contiguous;
  c.options.batch_invariant = 1;
  c.options.max_q_len = 1;
  check(c, {{{1, 1, 1}, {1, 1, 1}}, {{1, 1, 1}, {kLong, 300, 4097}}, {{1, 1, 1}, {512, 0, 5000}}});
}

TEST_F(AttentionGraph, ChunkedPrefillOverPages) {
  AttentionCase c = sixteen_bits({5, 4}, {kLong, 90}, 2, FOVEA_BF16);
  c.kv[0].page_size = 64;
  c.options.max_q_len = 9;
  check(c, {{{1, 8}, {1, 8}}, {{5, 4}, {kLong, 90}}, {{0, 9}, {0, 9}}, {{9, 0}, {4000, 0}}, {{1, 8}, {1025, 64}}});
}

TEST_F(AttentionGraph, Prefill) {
  AttentionCase c = sixteen_bits({100, 60}, {1500, 700}, 2, FOVEA_F16);
  c.options.max_q_len = 160;
  check(c, {{{80, 80}, {1, 1}}, {{100, 60}, {1500, 700}}, {{3, 157}, {3, 500}}, {{160, 0}, {160, 0}}});
}

TEST_F(AttentionGraph, PaddedQueriesOfOtherLengths) {
  AttentionCase c = sixteen_bits({7, 7}, {3000, 800}, 2, FOVEA_F16);
  c.padded = true;
  check(c, {{{1, 1}, {1, 1}}, {{7, 2}, {3000, 800}}, {{0, 7}, {5, 7}}});
}

TEST_F(Graph, MergeStates) {
  Rng rng = test_rng();
  constexpr int64_t kTokens = 6, kHeads = 4, kDims = 72;
  constexpr double kEmpty = -std::numeric_limits<double>::infinity();
  const TensorBox a(FOVEA_F32, {kTokens, kHeads, kDims}), b(FOVEA_F32, {kTokens, kHeads, kDims});
  const TensorBox a_lse(FOVEA_F32, {kTokens, kHeads}), b_lse(FOVEA_F32, {kTokens, kHeads});
  TensorBox out(FOVEA_BF16, {kTokens, kHeads, kDims}), lse(FOVEA_F32, {kTokens, kHeads});
  const fovea_tensor outs[] = {a, b}, lses[] = {a_lse, b_lse};
  MergeStatesParams params;
  params.parts = 2;
  params.outs = outs;
  params.lses = lses;
  params.out = out;
  params.lse = lse;
  const auto draw_parts = [&](double empty) {
    for (const auto& [o, l] : {std::pair{&a, &a_lse}, {&b, &b_lse}}) {
      o->fill([&](int64_t) { return rng.normal(); });
      l->fill([&](int64_t) { return rng.chance(empty) ? kEmpty : 3 * rng.normal(); });
    }
  };
  draw_parts(1);
  ResidentCalls calls = resident_calls(params);
  ASSERT_FALSE(calls.empty());
  capture(calls);
  for (const double empty : {1.0, 0.0, 0.4}) {
    draw_parts(empty);
    const oracle::Attention64 want = oracle::merge64(params);
    replay(
        calls, [&] { out.memory().fill(kPoison), lse.memory().fill(kPoison); },
        [&] {
          EXPECT_TRUE(within(out, want.out, want.out_bound));
          EXPECT_TRUE(within(lse, want.lse, want.lse_bound));
        });
  }
}

// Captured with every slot a padding row, replayed with real ones, some of them past the pool.
TEST_F(Graph, KvAppend) {
  Rng rng = test_rng();
  AppendCase c;
  c.tokens = 20;
  c.dtype = FOVEA_BF16;
  c.kv = {.lens = {kLong}, .heads = 2, .d_k = 64, .d_v = 64};
  c.kv.k = c.kv.v = {FOVEA_CODEC_FP8, FOVEA_SCALE_TENSOR, FOVEA_F32, 0};
  c.q_heads = 3;
  c.q_dtype = FOVEA_BF16;
  c.norm = c.with_rope = true;
  AppendProblem problem(c, rng);
  uint32_t status = 0;
  Exec exec;
  exec.status = &status;
  std::vector<int64_t> slots(static_cast<size_t>(c.tokens), -1);
  set(problem.slots, slots);
  ResidentCalls calls = resident_calls(problem.params, exec);
  ASSERT_FALSE(calls.empty());
  capture(calls);
  for (int round = 0; round < 4; ++round) {
    slots = rng.distinct(c.tokens, problem.capacity());
    if (round == 1) slots[3] = slots[7] = -1;
    if (round == 2) slots[5] = problem.capacity();
    if (round == 3) std::iota(slots.begin(), slots.end(), problem.capacity() - c.tokens);
    set(problem.slots, slots);
    problem.positions.fill([&](int64_t) { return static_cast<double>(rng.integer(0, kLong)); });
    replay(
        calls,
        [&] {
          problem.q_out.memory().fill(kPoison);
          status = 0;
        },
        [&] {
          problem.check();  // and wipes
          EXPECT_EQ(status, static_cast<uint32_t>(round == 2 ? FOVEA_INVALID_VALUE : FOVEA_OK));
        });
  }
}

// One plan, two streams, two workspaces: neither call sees the other.
TEST_F(Graph, OnePlanOnTwoStreamsAtOnce) {
  Rng rng = test_rng();
  AttentionCase c = sixteen_bits({1, 3, 1}, {3000, 700, 5000}, 8, FOVEA_F16);
  AttentionProblem a(c, rng), b(c, rng);
  ResidentCalls first = resident_calls(a.params);
  if (first.empty()) GTEST_SKIP() << "no kernel takes the case";
  for (size_t i = 0; i < first.size(); ++i) {
    ResidentCall& one = *first[i];
    SCOPED_TRACE(one.backend.name);
    Exec other;
    other.stream = one.device().new_stream();
    DeviceCall second(one.device(), FOVEA_OP_ATTENTION, &b.params, one.plan.workspace(), other, kPoison,
                      one.backend.kernel);
    ASSERT_TRUE(second.enough_memory());
    a.poison_outputs();
    b.poison_outputs();
    one.call->upload();
    second.upload();
    ASSERT_EQ(one.device().finish(), "");
    for (int launch = 0; launch < 50; ++launch) {
      ASSERT_EQ(one.plan.launch(*one.call), FOVEA_OK) << fovea_last_error();
      ASSERT_EQ(one.plan.launch(second), FOVEA_OK) << fovea_last_error();
    }
    one.device().wait(other.stream);
    expect_clean(one);
    for (const std::string& fault : second.download()) ADD_FAILURE() << fault;
    EXPECT_TRUE(a.right());
    EXPECT_TRUE(b.right());
  }
}

}  // namespace
}  // namespace fovea::test
