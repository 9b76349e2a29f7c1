// SPDX-License-Identifier: Apache-2.0
// merge_states: weights by LSE, empty parts to the bit, sinks once; and parts that attention itself made.
#include <cmath>
#include <deque>
#include <limits>

#include "oracle/attention64.h"
#include "oracle/kv64.h"
#include "support/attention_cases.h"
#include "support/backends.h"
#include "support/check.h"
#include "support/tensors.h"

namespace fovea::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// `parts` random partial outputs of shape [rows.., heads, d]; a row of a part is empty with probability `empty`: its
// lse is -inf and its out NaN.
struct MergeProblem {
  std::deque<TensorBox> outs, lses;
  std::vector<fovea_tensor> out_views, lse_views;
  TensorBox out, lse, sinks;
  fovea_merge_states_params params;

  MergeProblem(Rng& rng, int parts, const std::vector<int64_t>& shape, int32_t in, int32_t dtype, double empty,
               bool with_sinks, bool strided) {
    const auto layout = [&](size_t rank) { return strided ? random_layout(rng, static_cast<int>(rank)) : Layout{}; };
    const std::vector<int64_t> rows(shape.begin(), shape.end() - 1);
    const int64_t d = shape.back();
    for (int i = 0; i < parts; ++i) {
      TensorBox& o = outs.emplace_back(in, shape, layout(shape.size()));
      TensorBox& l = lses.emplace_back(FOVEA_F32, rows, layout(rows.size()));
      for (int64_t row = 0; row < l.size(); ++row) {
        const bool gone = rng.chance(empty);
        l.set(row, gone ? -kInf : 3 * rng.normal() + rng.pick({0.0, 0.0, 50.0}));
        for (int64_t e = 0; e < d && !gone; ++e) o.set(row * d + e, rng.normal());
      }
      out_views.push_back(o);
      lse_views.push_back(l);
    }
    out = TensorBox(dtype, shape, layout(shape.size()));
    lse = TensorBox(FOVEA_F32, rows, layout(rows.size()));
    params.parts = parts;
    params.outs = out_views.data();
    params.lses = lse_views.data();
    params.out = out;
    params.lse = lse;
    if (!with_sinks) return;
    sinks = floats(draw(rng, Values::normal, shape[shape.size() - 2], 1));
    params.sinks = sinks;
  }

  void check() {
    const oracle::Attention64 want = oracle::merge64(params);
    for (const Backend& backend : backends(FOVEA_OP_MERGE_STATES)) {
      out.memory().fill(kPoison);
      lse.memory().fill(kPoison);
      RUN_OR_CONTINUE(run(backend, params));
      EXPECT_TRUE(within(out, want.out, want.out_bound)) << backend.name;
      EXPECT_TRUE(within(lse, want.lse, want.lse_bound)) << backend.name;
      EXPECT_TRUE(out.outside_untouched() && lse.outside_untouched());
    }
  }
};

TEST(MergeStates, RandomParts) {
  Rng rng = test_rng();
  SCOPED_TRACE(seed_note());
  for (int i = 0; i < 60; ++i) {
    const int parts = static_cast<int>(rng.pick<int64_t>({1, 2, 3, 7, 64}));
    std::vector<int64_t> shape = {rng.integer(0, 5), rng.integer(1, 4), rng.pick<int64_t>({1, 16, 33, 64, 128, 576})};
    if (rng.chance(0.4)) shape.insert(shape.begin(), rng.integer(0, 3));
    const int32_t in = rng.pick({FOVEA_F32, FOVEA_F16, FOVEA_BF16}), to = rng.pick({FOVEA_F32, FOVEA_F16, FOVEA_BF16});
    MergeProblem(rng, parts, shape, in, to, rng.pick({0.0, 0.3, 1.0}), rng.chance(0.3), rng.chance(0.6)).check();
  }
}

// A part with lse = -inf weighs nothing, to the bit, and its out may be NaN.
TEST(MergeStates, AnEmptyPartChangesNoBit) {
  Rng rng = test_rng();
  for (int32_t dtype : {FOVEA_F32, FOVEA_F16, FOVEA_BF16}) {
    for (int position = 0; position < 3; ++position) {
      MergeProblem problem(rng, 3, {5, 3, 40}, dtype, dtype, 0, false, false);
      for (int part = 0; part < 3; ++part) {
        if (part == position) continue;
        problem.lses[static_cast<size_t>(part)].fill([](int64_t) { return -kInf; });
        problem.outs[static_cast<size_t>(part)].memory().fill(kPoison);
      }
      const size_t live = static_cast<size_t>(position);
      for (const Backend& backend : backends(FOVEA_OP_MERGE_STATES)) {
        RUN_OR_CONTINUE(run(backend, problem.params));
        EXPECT_EQ(problem.out.bits(), problem.outs[live].bits()) << backend.name;
        EXPECT_EQ(problem.lse.bits(), problem.lses[live].bits()) << backend.name;
      }
    }
  }
}

TEST(MergeStates, EmptyPartsAreEmptyTogether) {
  Rng rng = test_rng();
  MergeProblem problem(rng, 4, {3, 2, 16}, FOVEA_BF16, FOVEA_F32, 1, false, false);
  problem.check();
  for (double x : problem.out.values()) EXPECT_EQ(x, 0);
  for (double x : problem.lse.values()) EXPECT_EQ(x, -kInf);
  MergeProblem sunk(rng, 4, {3, 2, 16}, FOVEA_BF16, FOVEA_F32, 1, true, false);
  sunk.check();
  for (int64_t i = 0; i < sunk.lse.size(); ++i) EXPECT_EQ(sunk.lse.get(i), sunk.sinks.get(i % 2));
}

// A04: three merges one after the other, a quarter of the rows empty each time.
TEST(BugCorpus, A03_A04_EmptyRowsOverSeveralMerges) {
  Rng rng = test_rng();
  MergeProblem all(rng, 4, {64, 2, 32}, FOVEA_F32, FOVEA_F32, 0.25, false, false);
  const oracle::Attention64 want = oracle::merge64(all.params);
  for (const Backend& backend : backends(FOVEA_OP_MERGE_STATES)) {
    const TensorBox out(FOVEA_F32, {64, 2, 32}), lse(FOVEA_F32, {64, 2});
    out.assign(all.outs[0].values());
    lse.assign(all.lses[0].values());
    bool refused = false;
    for (size_t i = 1; i < 4 && !refused; ++i) {
      const fovea_tensor outs[] = {out, all.outs[i]}, lses[] = {lse, all.lses[i]};
      fovea_merge_states_params step;
      step.parts = 2;
      step.outs = outs;
      step.lses = lses;
      step.out = out;  // in place
      step.lse = lse;
      const Outcome result = run(backend, step);
      refused = result.refused;
      ASSERT_TRUE(result || refused) << result.message;
    }
    if (refused) continue;
    std::vector<double> bound = want.out_bound;
    for (double& b : bound) b *= 4;
    EXPECT_TRUE(within(out, want.out, bound)) << backend.name;
    for (size_t row = 0; row < want.lse.size(); ++row) {
      if (want.lse[row] != -kInf) continue;
      for (int64_t e = 0; e < 32; ++e) EXPECT_EQ(out.get(static_cast<int64_t>(row) * 32 + e), 0);
      EXPECT_EQ(lse.get(static_cast<int64_t>(row)), -kInf);
    }
  }
}

// Equal lse, far apart lse, and lse near the ends of f32.
TEST(MergeStates, ExtremeWeights) {
  Rng rng = test_rng();
  for (double a : {-3e38, -1e5, -100.0, 0.0, 88.0, 1e5, 3e38}) {
    for (double b : {-3e38, -1e5, -100.0, 0.0, 88.0, 1e5, 3e38}) {
      MergeProblem problem(rng, 2, {1, 1, 16}, FOVEA_F32, FOVEA_F32, 0, false, false);
      problem.lses[0].set(0, a);
      problem.lses[1].set(0, b);
      problem.check();
    }
  }
}

// The parts of one sequence, made by attention over a prefix and the rest, give what one call gives: cascades, sinks in
// exactly one part, shards of a cache, and one base of the logarithm for all (A06).
void expect_merged(std::vector<std::unique_ptr<AttentionProblem>>& parts, const fovea_attention_params& whole,
                   bool sinks) {
  const oracle::Attention64 want = oracle::attention64(whole);
  const std::vector<int64_t> shape(whole.out.shape, whole.out.shape + whole.out.rank);
  for (const Backend& backend : backends(FOVEA_OP_MERGE_STATES)) {
    std::vector<fovea_tensor> outs, lses;
    for (auto& part : parts) {
      part->poison_outputs();
      const Outcome result = run(backend, part->params);
      if (result.refused) break;
      ASSERT_TRUE(result) << result.message;
      outs.push_back(part->params.out);
      lses.push_back(part->params.lse);
    }
    if (outs.size() < parts.size()) continue;
    const TensorBox out(FOVEA_F32, shape), lse(FOVEA_F32, {shape[0], shape[1]});
    fovea_merge_states_params merge;
    merge.parts = static_cast<int32_t>(parts.size());
    merge.outs = outs.data();
    merge.lses = lses.data();
    merge.out = out;
    merge.lse = lse;
    if (sinks) merge.sinks = whole.sinks;
    RUN_OR_CONTINUE(run(backend, merge));
    if (backend.cuda) {  // each part has the rounding of its own products
      const auto times_four = [](std::vector<double> bound) {
        for (double& b : bound) b *= 4;
        return bound;
      };
      EXPECT_TRUE(within(out, want.out, times_four(want.out_bound))) << backend.name;
      EXPECT_TRUE(within(lse, want.lse, times_four(want.lse_bound))) << backend.name;
      continue;
    }
    EXPECT_TRUE(near(out, want.out, 2e-6, 1e-5)) << backend.name;
    EXPECT_TRUE(near(lse, want.lse, 2e-6, 1e-6)) << backend.name;
  }
}

TEST(BugCorpus, A06_PrefixAndSuffixAreTheWhole) {
  for (bool sinks : {false, true}) {
    Rng rng = test_rng(sinks);
    AttentionCase c = simple_case({3, 1}, {64 + 307, 64 + 20}, 4, 2, 64, 64);
    c.kv[0].k.codec = c.kv[0].v.codec = FOVEA_CODEC_F16;
    c.options.mask = FOVEA_MASK_CAUSAL;
    c.sinks = sinks;
    AttentionProblem whole(c, rng);
    const std::vector<double> q = whole.q.values();
    std::vector<std::unique_ptr<AttentionProblem>> parts;
    for (bool suffix : {false, true}) {
      parts.push_back(std::make_unique<AttentionProblem>(c, rng));
      AttentionProblem& part = *parts.back();
      part.q.assign(q);
      part.params.sinks = {};
      part.kvs[0] = whole.kvs[0];  // the same cache: a prefix of 64 tokens, and what follows it
      if (suffix) {
        part.caches[0]->starts = indices({64, 64});
        part.kvs[0].starts = part.caches[0]->starts;
      } else {
        part.params.mask = FOVEA_MASK_NONE;
        part.caches[0]->kv_lens = indices({64, 64});
        part.kvs[0].kv_lens = part.caches[0]->kv_lens;
      }
    }
    expect_merged(parts, whole.params, sinks);
  }
}

TEST(MergeStates, ShardsAreTheWhole) {
  for (int32_t interleave : {1, 16}) {
    Rng rng = test_rng();
    AttentionCase c = simple_case({3, 1, 2}, {133, 20, 2}, 4, 2, 32, 32);
    c.kv[0].k.codec = c.kv[0].v.codec = FOVEA_CODEC_F16;
    c.options.mask = FOVEA_MASK_CAUSAL;
    c.alibi = true;
    AttentionProblem whole(c, rng);
    std::vector<std::unique_ptr<AttentionProblem>> parts;
    for (int32_t rank = 0; rank < 3; ++rank) {
      AttentionCase shard = c;
      shard.kv[0].shard_world = 3;
      shard.kv[0].shard_rank = rank;
      shard.kv[0].shard_interleave = interleave;
      parts.push_back(std::make_unique<AttentionProblem>(shard, rng));
      AttentionProblem& part = *parts.back();
      part.q.assign(whole.q.values());
      part.params.alibi_slopes = whole.params.alibi_slopes;
      for (int64_t b = 0; b < 3; ++b) {
        for (int64_t t = 0; t < c.kv[0].lens[static_cast<size_t>(b)]; ++t) {
          if (!oracle::kv_holds(part.kvs[0], t)) continue;
          std::vector<double> k, v;
          for (int64_t h = 0; h < 2; ++h) {
            for (int64_t d = 0; d < 32; ++d) {
              k.push_back(oracle::k_at(whole.kvs[0], oracle::kv_slot(whole.kvs[0], b, t, false), h, d));
              v.push_back(oracle::v_at(whole.kvs[0], oracle::kv_slot(whole.kvs[0], b, t, true), h, d));
            }
          }
          part.caches[0]->write(b, t, k, v, rng);
        }
      }
    }
    expect_merged(parts, whole.params, false);
  }
}

TEST(MergeStates, Mistakes) {
  using Change =
      void (*)(fovea_merge_states_params&, std::vector<fovea_tensor> & outs, std::vector<fovea_tensor> & lses);
  const struct {
    const char* word;
    Change change;
  } mistakes[] = {
      {"parts", [](auto& p, auto&, auto&) { p.parts = 0; }},
      {"parts", [](auto& p, auto&, auto&) { p.parts = 65; }},
      {"outs", [](auto& p, auto&, auto&) { p.outs = nullptr; }},
      {"lses", [](auto& p, auto&, auto&) { p.lses = nullptr; }},
      {"out", [](auto& p, auto&, auto&) { p.out = {}; }},
      {"out", [](auto& p, auto&, auto&) { p.out.dtype = FOVEA_E4M3; }},
      {"out", [](auto& p, auto&, auto&) { p.out.rank = 2; }},
      {"out", [](auto& p, auto&, auto&) { p.out.stride[2] = 2; }},
      {"out", [](auto& p, auto&, auto&) { p.out.data = nullptr; }},
      {"lse", [](auto& p, auto&, auto&) { p.lse.dtype = FOVEA_BF16; }},
      {"lse", [](auto& p, auto&, auto&) { p.lse.shape[0] = 1; }},
      {"sinks", [](auto& p, auto&, auto&) { p.sinks = p.lse; }},
      {"outs[1]", [](auto&, auto& outs, auto&) { outs[1].shape[2] = 15; }},
      {"outs[1]", [](auto&, auto& outs, auto&) { outs[1].dtype = FOVEA_I32; }},
      {"outs[1]", [](auto&, auto& outs, auto&) { outs[1].data = nullptr; }},
      {"outs[0]", [](auto&, auto& outs, auto&) { outs[0] = {}; }},
      {"lses[1]", [](auto&, auto&, auto& lses) { lses[1].shape[1] = 1; }},
      {"lses[1]", [](auto&, auto&, auto& lses) { lses[1].dtype = FOVEA_F16; }},
      {"lses[0]", [](auto&, auto&, auto& lses) { lses[0] = {}; }},
      {"struct_size", [](auto& p, auto&, auto&) { p.struct_size = 4; }},
  };
  Rng rng = test_rng();
  for (const auto& mistake : mistakes) {
    MergeProblem problem(rng, 2, {3, 2, 16}, FOVEA_F32, FOVEA_F32, 0, false, false);
    mistake.change(problem.params, problem.out_views, problem.lse_views);
    for (const Backend& backend : backends(FOVEA_OP_MERGE_STATES)) {
      const Outcome result = run(backend, problem.params);
      if (result.refused && result.message.find(mistake.word) == std::string::npos) continue;
      EXPECT_NE(result.code, FOVEA_OK) << mistake.word << " " << &mistake - mistakes;
      EXPECT_NE(result.code, FOVEA_INTERNAL);
      EXPECT_NE(result.message.find(mistake.word), std::string::npos) << result.message;
      EXPECT_TRUE(problem.out.memory().all(kPoison) && problem.lse.memory().all(kPoison));
    }
  }
}

}  // namespace
}  // namespace fovea::test
