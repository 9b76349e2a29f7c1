// SPDX-License-Identifier: Apache-2.0
// Walks over trees of drafts, each against the recursion in fp64 with the same random numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "fovea/fovea.hpp"
#include "ops/sample_batch.h"
#include "oracle/verify64.h"
#include "support/backends.h"
#include "support/check.h"

namespace {

using namespace fovea::test;
using fovea::Result;
using fovea::SampleParams;
using fovea::VerifyParams;
using fovea::oracle::DraftTree;
using fovea::oracle::uniform64;
using fovea::oracle::Verified;
using fovea::oracle::verify64;

// A tree whose siblings often repeat a token, and drafts that are often likely.
DraftTree random_tree(Rng& rng, int64_t nodes, int64_t vocab, bool chain) {
  DraftTree tree;
  for (int64_t node = 0; node < nodes; ++node) {
    tree.parents.push_back(node == 0 ? -5 : chain ? node - 1 : rng.integer(std::max<int64_t>(0, node - 4), node - 1));
    tree.tokens.push_back(node == 0 ? -9 : rng.integer(0, std::min<int64_t>(vocab, 5) - 1));
  }
  tree.drawn_from.resize(static_cast<size_t>(nodes));
  return tree;
}

int64_t depth_of(const DraftTree& tree) {
  std::vector<int64_t> depth(tree.parents.size(), 0);
  for (size_t i = 1; i < depth.size(); ++i) depth[i] = depth[static_cast<size_t>(tree.parents[i])] + 1;
  return depth.empty() ? 0 : *std::max_element(depth.begin(), depth.end());
}

struct Problem {
  std::vector<DraftTree> trees;  // one per request; some without a node
  std::vector<SampleRow> rows;   // one per request
  TensorBox logits, draft_probs;
  std::vector<int64_t> cu_nodes = {0}, draft_tokens, parents, draft_rows, request_of;
};

// How a request fares by the oracle.
Verified expected(const Problem& x, size_t request) {
  const SampleRow& row = x.rows[request];
  return verify64(
      x.trees[request],
      [&](int64_t node, const std::vector<int64_t>& path) {
        SampleRow here = row;
        here.edits.output.insert(here.edits.output.end(), path.begin(), path.end());
        return probabilities_of(logits_of(x.logits, x.cu_nodes[request] + node), here);
      },
      [&](int64_t depth, uint32_t stream) {
        return uniform64(row.seed, static_cast<uint64_t>(row.position + depth), stream);
      });
}

Problem random_problem(Rng& rng, bool chain) {
  Problem x;
  const int64_t vocab = rng.pick({1, 2, 5, 33, 100, 1000});
  for (int64_t r = rng.integer(1, 5); r > 0; --r) {
    x.trees.push_back(random_tree(rng, rng.pick({0, 1, 2, 5, 9}), vocab, chain));
    x.rows.push_back(random_row(rng, vocab));
    x.cu_nodes.push_back(x.cu_nodes.back() + static_cast<int64_t>(x.trees.back().tokens.size()));
  }
  const int64_t nodes = x.cu_nodes.back(), rows = rng.integer(1, 4);
  x.logits = random_logits(rng, nodes, vocab);
  x.draft_probs = TensorBox(rng.pick({FOVEA_F32, FOVEA_F16, FOVEA_BF16}), {rows, vocab}, random_layout(rng, 2));
  const double sparse = rng.pick({0.0, 0.5});
  x.draft_probs.fill([&](int64_t) { return rng.chance(sparse) ? 0.0 : std::exp(rng.normal()); });
  for (int64_t row = 0; row < rows; ++row) x.draft_probs.set(row * vocab, 1);
  for (size_t r = 0; r < x.trees.size(); ++r) {
    DraftTree& tree = x.trees[r];
    for (size_t node = 0; node < tree.tokens.size(); ++node) {
      x.request_of.push_back(static_cast<int64_t>(r));
      x.draft_tokens.push_back(tree.tokens[node]);
      x.parents.push_back(tree.parents[node]);
      x.draft_rows.push_back(node == 0 ? -77 : rng.integer(-1, rows - 1));
      if (node > 0 && x.draft_rows.back() >= 0) tree.drawn_from[node] = logits_of(x.draft_probs, x.draft_rows.back());
    }
  }
  return x;
}

TEST(Verify, EveryWalkIsThatOfTheRecursion) {
  int64_t compared = 0, accepted_drafts = 0, close = 0;
  for (const Backend& b : backends()) {
    SCOPED_TRACE(b.name);
    Rng rng = test_rng();
    for (int repeat = 0; repeat < 300 * effort(); ++repeat) {
      SCOPED_TRACE(seed_note());
      const bool chain = rng.chance(0.4);
      const Problem x = random_problem(rng, chain);
      const auto n = static_cast<int64_t>(x.trees.size());
      const int64_t vocab = x.logits.view().shape[1];
      int64_t width = rng.integer(1, 3);
      for (const DraftTree& tree : x.trees) width = std::max(width, depth_of(tree) + 1);
      SampleParams target{.logits = x.logits};
      const SampleTensors tensors(rng, x.rows, vocab, &x.request_of);
      tensors.put(target);
      const TensorBox cu_nodes = indices(x.cu_nodes), draft_tokens = indices(x.draft_tokens, FOVEA_I64),
                      parents = indices(x.parents), draft_rows = indices(x.draft_rows);
      TensorBox accepted(FOVEA_I32, {n}), tokens(FOVEA_I32, {n, width}, random_layout(rng, 2)),
          nodes(FOVEA_I64, {n, width});
      VerifyParams p{.target = &target,
                     .cu_nodes = cu_nodes,
                     .draft_tokens = draft_tokens,
                     .draft_probs = x.draft_probs,
                     .draft_rows = draft_rows,
                     .accepted = accepted,
                     .tokens = tokens,
                     .nodes = nodes};
      if (!chain) p.parents = parents;
      const Result result = run(b.context, p);
      ASSERT_TRUE(result) << result.message;
      EXPECT_TRUE(tokens.outside_untouched());
      for (int64_t r = 0; r < n; ++r) {
        const auto i = static_cast<size_t>(r);
        Verified want;
        if (!x.trees[i].tokens.empty()) want = expected(x, i);
        close += want.margin < 1e-5;
        if (want.margin < 1e-5) continue;  // f32 weights may fall to the other side
        ++compared;
        accepted_drafts += static_cast<int64_t>(want.nodes.size());
        want.tokens.resize(static_cast<size_t>(width), -1);
        const auto count = static_cast<double>(want.nodes.size());
        want.nodes.resize(static_cast<size_t>(width), -1);
        EXPECT_EQ(accepted.get(r), count) << "request " << r;
        for (int64_t j = 0; j < width; ++j) {
          EXPECT_EQ(tokens.get(r * width + j), static_cast<double>(want.tokens[static_cast<size_t>(j)]))
              << r << ' ' << j;
          EXPECT_EQ(nodes.get(r * width + j), static_cast<double>(want.nodes[static_cast<size_t>(j)])) << r << ' ' << j;
        }
      }
    }
  }
  EXPECT_GT(accepted_drafts, compared / 12);
  EXPECT_LT(close, compared / 20);
}

// A greedy request takes the drafts that are the best token, of two equal siblings the first.
TEST(Verify, GreedyFollowsTheBestTokens) {
  for (const Backend& b : backends()) {
    // Nodes 0 -> {1: token 4, 2: token 2, 3: token 2}, 2 -> {4: token 1}, 4 -> {5: token 0}.
    TensorBox logits(FOVEA_BF16, {6, 8}), accepted(FOVEA_I64, {1}), tokens(FOVEA_I32, {1, 5}), nodes(FOVEA_I32, {1, 5});
    const std::vector<int64_t> best = {2, 7, 1, 7, 6, 5};
    logits.fill([&](int64_t i) { return i % 8 == best[static_cast<size_t>(i / 8)] ? 3.0 : 1.0; });
    const TensorBox cu_nodes = indices({0, 6}), drafts = indices({0, 4, 2, 2, 1, 0}),
                    parents = indices({0, 0, 0, 0, 2, 4});
    const SampleParams target{.logits = logits};
    const VerifyParams p{.target = &target,
                         .cu_nodes = cu_nodes,
                         .draft_tokens = drafts,
                         .parents = parents,
                         .accepted = accepted,
                         .tokens = tokens,
                         .nodes = nodes};
    ASSERT_TRUE(run(b.context, p));
    EXPECT_EQ(accepted.get(0), 2);
    EXPECT_TRUE(within(tokens, {2, 1, 6, -1, -1}, 0));
    EXPECT_TRUE(within(nodes, {2, 4, -1, -1, -1}, 0));
  }
}

// A draft is a token of the output for those after it.
TEST(Verify, DraftsOnThePathArePenalised) {
  const TensorBox logits = floats({3, 2.5, 0, 3, 2.5, 0, 3, 2.5, 0}, FOVEA_F32, {3, 3});
  const TensorBox cu_nodes = indices({0, 3}), drafts = indices({0, 0, 1}), history(FOVEA_I32, {0}),
                  ends = indices({0, 0});
  TensorBox accepted(FOVEA_I32, {1}), tokens(FOVEA_I32, {1, 3});
  const SampleParams target{
      .logits = logits, .frequency_penalty = 1, .history_tokens = history, .history_indptr = ends};
  ASSERT_TRUE(run(
      backends()[0].context,
      VerifyParams{
          .target = &target, .cu_nodes = cu_nodes, .draft_tokens = drafts, .accepted = accepted, .tokens = tokens}));
  EXPECT_TRUE(within(tokens, {0, 1, 0}, 0)) << "3, then 2 and 2.5, then 2 and 1.5";
}

// K01: alone and in a batch, on any number of threads.
TEST(Verify, SameWalkWhateverTheBatchOrThreads) {
  Rng rng = test_rng();
  constexpr int64_t kRequests = 20, kNodes = 4, kVocab = 1003;
  TensorBox logits(FOVEA_F32, {kRequests * kNodes, kVocab}), probs(FOVEA_F32, {kRequests * kNodes, kVocab});
  logits.fill([&](int64_t i) { return i % kVocab < 3 ? 5 + rng.normal() : rng.normal(); });
  probs.fill([&](int64_t i) { return i % kVocab < 3 ? 0.3 : 1e-4; });
  std::vector<int64_t> cu_nodes, drafts, positions, seeds;
  for (int64_t r = 0; r < kRequests; ++r) {
    cu_nodes.push_back(r * kNodes);
    positions.push_back(r * 7);
    seeds.push_back(r * r);
    for (int64_t node = 0; node < kNodes; ++node) drafts.push_back(rng.integer(0, 2));
  }
  cu_nodes.push_back(kRequests * kNodes);
  const auto walk = [&](const fovea::Context& context, int64_t first, int64_t last) {
    std::vector<int64_t> ends;
    for (int64_t r = first; r <= last; ++r) ends.push_back((r - first) * kNodes);
    const TensorBox at = indices(positions), cu = indices(ends), draft_tokens = indices(drafts),
                    seed = indices(seeds, FOVEA_I64);
    TensorBox accepted(FOVEA_I32, {last - first}), tokens(FOVEA_I32, {last - first, kNodes});
    const SampleParams target{.temperature = 1,
                              .top_p = 0.9f,
                              .logits = slice(logits, 0, first * kNodes, last * kNodes),
                              .positions = slice(at, 0, first, last),
                              .seeds = slice(seed, 0, first, last)};
    const Result result =
        run(context, VerifyParams{.target = &target,
                                  .cu_nodes = cu,
                                  .draft_tokens = slice(draft_tokens, 0, first * kNodes, last * kNodes),
                                  .draft_probs = slice(probs, 0, first * kNodes, last * kNodes),
                                  .accepted = accepted,
                                  .tokens = tokens});
    EXPECT_TRUE(result) << result.message;
    return tokens.values();
  };
  const std::vector<double> want = walk(backends()[0].context, 0, kRequests);
  for (const Backend& b : backends()) EXPECT_EQ(walk(b.context, 0, kRequests), want) << b.name;
  for (const int32_t threads : {1, 3}) EXPECT_EQ(walk(cpu_context(threads), 0, kRequests), want) << threads;
  for (int64_t r = 0; r < kRequests; r += 3) {
    const std::vector<double> alone = walk(backends()[0].context, r, r + 1);
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), want.begin() + r * kNodes)) << r;
  }
}

// A draft is never accepted that the target cannot draw, also where p and q are equal but for it.
TEST(Verify, NeverATokenOutsideTheTarget) {
  constexpr int64_t kRequests = 500;
  TensorBox logits(FOVEA_F32, {kRequests * 2, 4}, {.broadcast = 1}), tokens(FOVEA_I32, {kRequests, 2}),
      accepted(FOVEA_I32, {kRequests});
  for (int64_t i = 0; i < 4; ++i) logits.set(i, i == 3 ? -HUGE_VAL : 0.0);
  const TensorBox probs = floats({1, 1, 1, 1e-30}, FOVEA_F32, {1, 4});
  std::vector<int64_t> cu_nodes = {0}, positions;
  for (int64_t r = 0; r < kRequests; ++r) cu_nodes.push_back(2 * r + 2), positions.push_back(r);
  const TensorBox cu = indices(cu_nodes), at = indices(positions),
                  drafts = indices(std::vector<int64_t>(kRequests * 2, 3)),
                  rows = indices(std::vector<int64_t>(kRequests * 2, 0));
  const SampleParams target{.temperature = 1, .logits = logits, .positions = at};
  ASSERT_TRUE(run(backends()[0].context, VerifyParams{.target = &target,
                                                      .cu_nodes = cu,
                                                      .draft_tokens = drafts,
                                                      .draft_probs = probs,
                                                      .draft_rows = rows,
                                                      .accepted = accepted,
                                                      .tokens = tokens}));
  for (int64_t r = 0; r < kRequests; ++r) {
    EXPECT_EQ(accepted.get(r), 0);
    EXPECT_TRUE(tokens.get(2 * r) >= 0 && tokens.get(2 * r) < 3) << tokens.get(2 * r);
  }
}

class VerifyErrors : public ::testing::Test {
 protected:
  struct Call {
    SampleParams target;
    VerifyParams p;
  };
  Call whole() {
    Call c{.target = {.temperature = 1, .logits = logits, .positions = positions}, .p = {}};
    c.p = {.cu_nodes = cu_nodes,
           .draft_tokens = drafts,
           .parents = parents,
           .draft_probs = probs,
           .draft_rows = rows,
           .accepted = accepted,
           .tokens = tokens,
           .nodes = nodes};
    return c;
  }
  template <class Change>
  std::string message(const Change& change, fovea::Exec exec = {}) {
    Call c = whole();
    c.p.target = &c.target;
    change(c);
    const Result result = run(backends()[0].context, c.p, exec);
    EXPECT_NE(result.code, FOVEA_OK);
    if (exec.flags == 0) {
      for (TensorBox* out : {&accepted, &tokens, &nodes}) EXPECT_TRUE(out->memory().all(kPoison));
    }
    return result.message;
  }
  void field(fovea_tensor VerifyParams::*member, const TensorBox& box, const std::string& text) {
    EXPECT_EQ(message([&](Call& c) { c.p.*member = box; }), text);
  }
  TensorBox logits{FOVEA_F32, {5, 10}}, probs{FOVEA_F32, {2, 10}}, accepted{FOVEA_I32, {2}}, tokens{FOVEA_I32, {2, 3}},
      nodes{FOVEA_I32, {2, 3}};
  TensorBox cu_nodes = indices({0, 4, 5}), drafts = indices({-1, 1, 2, 9, -1}), parents = indices({-1, 0, 1, 0, -1}),
            rows = indices({-9, 0, 1, -1, -9}), positions = indices({0, 8});
};

TEST_F(VerifyErrors, Shapes) {
  EXPECT_EQ(message([](Call& c) { c.p.target = nullptr; }), "target is null: must point to the parameters of sampling");
  EXPECT_EQ(message([](Call& c) { c.target.struct_size = 8; }).substr(0, 25), "target.struct_size is 8: ");
  EXPECT_EQ(message([](Call& c) { c.target.top_p = 2; }), "target.top_p is 2: must be in [0, 1]");
  EXPECT_EQ(message([&](Call& c) { c.target.tokens = drafts; }),
            "target.tokens is given: verify has outputs of its own");
  EXPECT_EQ(message([](Call& c) { c.target.positions.shape[0] = 1; }),
            "target.positions.shape[0] is 1: must be 2 (cu_nodes.shape[0] - 1)");
  EXPECT_EQ(message([](Call& c) { c.p.draft_tokens.shape[0] = 4; }),
            "draft_tokens.shape[0] is 4: must be 5 (target.logits.shape[0])");
  EXPECT_EQ(message([](Call& c) { c.p.draft_rows = {}; }),
            "draft_probs.shape[0] is 2: must be 5 (target.logits.shape[0]), or give draft_rows");
  EXPECT_EQ(message([](Call& c) { c.p.draft_probs = {}; }), "draft_rows is given: needs draft_probs");
  EXPECT_EQ(message([](Call& c) { c.p.draft_probs.shape[1] = 9; }),
            "draft_probs.shape[1] is 9: must be 10 (target.logits.shape[1])");
  EXPECT_EQ(message([](Call& c) { c.target.temperature = 0, c.target.positions = {}; }),
            "draft_probs is given: has no effect at temperature 0");
  EXPECT_EQ(message([](Call& c) { c.p.tokens.shape[1] = 0; }),
            "tokens.shape[1] is 0: must be at least 1, for the token after the drafts");
  EXPECT_EQ(message([](Call& c) { c.p.nodes.shape[1] = 2; }), "nodes.shape is [2, 2]: must be [2, 3] (tokens)");
}

TEST_F(VerifyErrors, Values) {
  field(&VerifyParams::cu_nodes, indices({1, 4, 5}), "cu_nodes[0] is 1: must be 0");
  field(&VerifyParams::cu_nodes, indices({0, -1, 5}), "cu_nodes[1] is -1: must be at least 0, the one before");
  field(&VerifyParams::cu_nodes, indices({0, 4, 6}), "cu_nodes[2] is 6: must be 5 (target.logits.shape[0])");
  field(&VerifyParams::draft_tokens, indices({-1, 1, 2, 10, -1}), "draft_tokens[3] is 10: must be in [0, 10)");
  field(&VerifyParams::parents, indices({-1, 0, 2, 0, -1}), "parents[2] is 2: must be in [0, 2), a node before it");
  field(&VerifyParams::draft_rows, indices({-9, 0, 2, -1, -9}), "draft_rows[2] is 2: must be -1 or in [0, 2)");
  EXPECT_EQ(message([](Call& c) { c.p.tokens.shape[1] = c.p.nodes.shape[1] = 2; }),
            "tokens.shape[1] is 2: must be above 2, the drafts on a path of request 0");
  const TensorBox negative = indices({0, -8});
  EXPECT_EQ(message([&](Call& c) { c.target.positions = negative; }),
            "target.positions[1] is -8: must not be negative");
}

// Rows without a number and drafts without a distribution end their request, and no other.
TEST_F(VerifyErrors, WhatOnlyTheWalkSees) {
  logits.fill([](int64_t i) { return i < 40 ? 0.0 : -HUGE_VAL; });
  probs.fill([](int64_t i) { return i == 3 ? -1.0 : 0.5; });
  EXPECT_EQ(
      message([](Call&) {}, {.flags = FOVEA_EXEC_CHECK}),
      "draft_probs of request 0 is no distribution: entries must not be negative and have a sum; its last token is -1");
  EXPECT_EQ(accepted.get(0), 0);
  EXPECT_EQ(tokens.get(0), -1);
  probs.fill([](int64_t) { return 0.5; });
  EXPECT_EQ(message([](Call&) {}, {.flags = FOVEA_EXEC_CHECK}),
            "target.logits of request 1 is without a number above -inf: its last token is -1");
  EXPECT_GE(tokens.get(0), 0);
  EXPECT_EQ(tokens.get(3), -1);
}

}  // namespace
