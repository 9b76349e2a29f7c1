// SPDX-License-Identifier: Apache-2.0
// The proof of verify: whatever the drafts and wherever they came from, the tokens have the joint distribution of plain
// sampling. Chi-square over all sequences of three tokens of a small vocabulary, with fixed seeds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "fovea/fovea.hpp"
#include "ops/sample_batch.h"
#include "support/backends.h"

namespace {

using namespace fovea::test;
using fovea::Result;
using fovea::SampleParams;
using fovea::VerifyParams;
using fovea::oracle::probabilities64;
using fovea::oracle::Rule;

using Tokens = std::vector<int64_t>;
constexpr size_t kLength = 3;  // tokens of a sequence

// A model whose logits depend on all tokens before.
struct Model {
  Rule rule;
  int64_t vocab;
  uint64_t salt;
  std::vector<double> logits(const Tokens& path) const {
    Rng rng(salt + path.size());
    for (const int64_t t : path) rng = Rng(rng.bits() ^ static_cast<uint64_t>(t));
    std::vector<double> x;
    for (int64_t i = 0; i < vocab; ++i) x.push_back(static_cast<double>(static_cast<float>(rng.normal())));
    return x;
  }
  std::vector<double> probabilities(const Tokens& path) const { return probabilities64(logits(path), rule); }
};

int64_t draw(Rng& rng, const std::vector<double>& weights) {
  double rest = rng.uniform() * std::accumulate(weights.begin(), weights.end(), 0.0);
  size_t i = 0, last = 0;
  for (; i < weights.size() && rest >= 0; ++i) {
    if (weights[i] > 0) last = i;
    rest -= weights[i];
  }
  return static_cast<int64_t>(last);
}

// The tree of one request, of the same form for all.
struct Drafts {
  Tokens tokens, rows;                     // of each node
  std::vector<std::vector<double>> probs;  // that `rows` name
  std::vector<Tokens> paths = {{}};        // of each node, its own token included
};

struct Form {
  const char* name;
  Tokens parents;  // of each node; node 0 is the root
  // Draws the token of a node, given what it may look at, and says from what; an empty distribution: it did not draw.
  std::function<int64_t(Rng&, const Model& draft, Drafts& so_far, const Tokens& path, int64_t sibling)> token;
};

// Siblings are independent draws: they may be the same token.
int64_t independent(Rng& rng, const Model& draft, Drafts& d, const Tokens& path, int64_t) {
  d.probs.push_back(draft.probabilities(path));
  d.rows.push_back(static_cast<int64_t>(d.probs.size()) - 1);
  return draw(rng, d.probs.back());
}

// Siblings are drawn without replacement.
int64_t without_replacement(Rng& rng, const Model& draft, Drafts& d, const Tokens& path, int64_t) {
  std::vector<double> q = draft.probabilities(path);
  for (size_t i = 1; i < d.paths.size(); ++i) {
    if (Tokens(d.paths[i].begin(), d.paths[i].end() - 1) == path) q[static_cast<size_t>(d.paths[i].back())] = 0;
  }
  d.probs.push_back(q);
  d.rows.push_back(static_cast<int64_t>(d.probs.size()) - 1);
  return draw(rng, q);
}

// The likeliest of the draft model, then the next, then the first again.
int64_t likeliest(Rng&, const Model& draft, Drafts& d, const Tokens& path, int64_t sibling) {
  const std::vector<double> q = draft.probabilities(path);
  std::vector<int64_t> order(q.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return q[static_cast<size_t>(a)] > q[static_cast<size_t>(b)]; });
  d.rows.push_back(-1);
  return order[static_cast<size_t>(sibling % 2)];
}

int64_t mixed(Rng& rng, const Model& draft, Drafts& d, const Tokens& path, int64_t sibling) {
  return sibling % 2 ? likeliest(rng, draft, d, path, 0) : independent(rng, draft, d, path, sibling);
}

Drafts make_drafts(Rng& rng, const Form& form, const Model& draft) {
  Drafts d{.tokens = {-1}, .rows = {-1}, .probs = {}};
  for (size_t node = 1; node < form.parents.size(); ++node) {
    const int64_t parent = form.parents[node];
    const auto sibling =
        std::count(form.parents.begin() + 1, form.parents.begin() + static_cast<int64_t>(node), parent);
    const Tokens path = d.paths[static_cast<size_t>(parent)];
    d.tokens.push_back(form.token(rng, draft, d, path, sibling));
    d.paths.push_back(path);
    d.paths.back().push_back(d.tokens.back());
  }
  return d;
}

// Counts of sequences that begin with what verify gives and go on with plain draws.
std::vector<double> sequences(Rng& rng, const Form& form, const Model& target, const Model& draft, int64_t requests,
                              double* accepted_per_request) {
  const auto nodes = static_cast<int64_t>(form.parents.size()), vocab = target.vocab;
  TensorBox logits(FOVEA_F32, {requests * nodes, vocab});
  Tokens cu_nodes = {0}, tokens, parents, rows, positions;
  std::vector<double> probs;
  for (int64_t r = 0; r < requests; ++r) {
    const Drafts d = make_drafts(rng, form, draft);
    const auto first_row = static_cast<int64_t>(probs.size()) / vocab;
    for (int64_t node = 0; node < nodes; ++node) {
      const auto i = static_cast<size_t>(node);
      const std::vector<double> x = target.logits(d.paths[i]);
      for (int64_t v = 0; v < vocab; ++v) logits.set((r * nodes + node) * vocab + v, x[static_cast<size_t>(v)]);
      tokens.push_back(d.tokens[i]);
      parents.push_back(form.parents[i]);
      rows.push_back(d.rows[i] < 0 ? -1 : first_row + d.rows[i]);
    }
    for (const std::vector<double>& q : d.probs) probs.insert(probs.end(), q.begin(), q.end());
    cu_nodes.push_back((r + 1) * nodes);
    positions.push_back(r * 10);
  }
  if (probs.empty()) probs.assign(static_cast<size_t>(vocab), 1.0);
  const TensorBox cu = indices(cu_nodes), token_box = indices(tokens), parent_box = indices(parents),
                  row_box = indices(rows), at = indices(positions),
                  prob_box = floats(probs, FOVEA_F32, {static_cast<int64_t>(probs.size()) / vocab, vocab});
  TensorBox accepted(FOVEA_I32, {requests}), out(FOVEA_I32, {requests, nodes});
  const SampleParams p{.top_k = static_cast<int32_t>(target.rule.top_k),
                       .temperature = static_cast<float>(target.rule.temperature),
                       .top_p = static_cast<float>(target.rule.top_p),
                       .seed = rng.bits(),
                       .logits = logits,
                       .positions = at};
  const Result result = run(backends()[0].context, VerifyParams{.target = &p,
                                                                .cu_nodes = cu,
                                                                .draft_tokens = token_box,
                                                                .parents = parent_box,
                                                                .draft_probs = prob_box,
                                                                .draft_rows = row_box,
                                                                .accepted = accepted,
                                                                .tokens = out});
  EXPECT_TRUE(result) << result.message;
  std::vector<double> count(static_cast<size_t>(std::pow(vocab, kLength)), 0);
  *accepted_per_request = 0;
  for (int64_t r = 0; r < requests; ++r) {
    const auto n = static_cast<int64_t>(accepted.get(r)) + 1;
    *accepted_per_request += accepted.get(r) / static_cast<double>(requests);
    Tokens sequence;
    for (int64_t i = 0; i < n; ++i) sequence.push_back(static_cast<int64_t>(out.get(r * nodes + i)));
    while (sequence.size() < kLength) sequence.push_back(draw(rng, target.probabilities(sequence)));
    size_t cell = 0;
    for (size_t i = 0; i < kLength; ++i) cell = cell * static_cast<size_t>(vocab) + static_cast<size_t>(sequence[i]);
    ++count[cell];
  }
  return count;
}

// Probability of every sequence.
std::vector<double> joint(const Model& target) {
  std::vector<double> all = {1};
  std::vector<Tokens> paths = {{}};
  for (size_t i = 0; i < kLength; ++i) {
    std::vector<double> next;
    std::vector<Tokens> next_paths;
    for (size_t j = 0; j < all.size(); ++j) {
      const std::vector<double> p = target.probabilities(paths[j]);
      for (int64_t t = 0; t < target.vocab; ++t) {
        next.push_back(all[j] * p[static_cast<size_t>(t)]);
        next_paths.push_back(paths[j]);
        next_paths.back().push_back(t);
      }
    }
    all = next;
    paths = next_paths;
  }
  return all;
}

TEST(VerifyJoint, TokensHaveTheDistributionOfPlainSampling) {
  const Form forms[] = {{"no drafts", {-1}, independent},
                        {"chain of 1", {-1, 0}, independent},
                        {"chain of 3", {-1, 0, 1, 2}, independent},
                        {"chain that was not drawn", {-1, 0, 1}, likeliest},
                        {"3 siblings, duplicates among them", {-1, 0, 0, 0}, independent},
                        {"3 siblings without replacement", {-1, 0, 0, 0}, without_replacement},
                        {"3 likeliest, the first twice", {-1, 0, 0, 0}, likeliest},
                        {"tree", {-1, 0, 0, 1, 1, 2, 3}, independent},
                        {"tree without replacement", {-1, 0, 0, 0, 1, 1, 2}, without_replacement},
                        {"tree of both kinds", {-1, 0, 0, 1, 1, 1, 2}, mixed}};
  const Rule rules[] = {{}, {.temperature = 0.5, .top_k = 3}, {.temperature = 1.5, .top_p = 0.75}};
  const auto requests = static_cast<int64_t>(10000 * effort());
  for (const Form& form : forms) {
    SCOPED_TRACE(form.name);
    int64_t vocab = 3;
    for (const Rule& rule : rules) {
      Rng rng = test_rng(static_cast<uint64_t>(vocab));
      const Model target{.rule = rule, .vocab = vocab, .salt = 11}, draft{.rule = {}, .vocab = vocab, .salt = 12};
      double accepted = 0;
      const std::vector<double> count = sequences(rng, form, target, draft, requests, &accepted);
      const ChiSquare chi = chi_square(count, joint(target));
      EXPECT_LT(chi.ratio, chi.limit) << "vocab " << vocab;
      if (form.parents.size() > 1) {
        EXPECT_GT(accepted, 0.2);
      }
      ++vocab;
    }
  }
}

// E16: drafts by `sample`, with the seed and positions of the target, from the distribution that it says.
TEST(VerifyJoint, DraftsOfSampleWithTheSameSeed) {
  constexpr int64_t kVocab = 5;
  const auto requests = static_cast<int64_t>(40000 * effort());
  const Model target{.rule = {}, .vocab = kVocab, .salt = 21}, draft{.rule = {}, .vocab = kVocab, .salt = 22};
  TensorBox draft_logits(FOVEA_F32, {requests, kVocab}, {.broadcast = 1}), drafts(FOVEA_I32, {requests}),
      probs(FOVEA_F32, {requests, kVocab});
  for (int64_t i = 0; i < kVocab; ++i) draft_logits.set(i, draft.logits({})[static_cast<size_t>(i)]);
  Tokens positions(static_cast<size_t>(requests));
  std::iota(positions.begin(), positions.end(), 0);
  const TensorBox at = indices(positions);
  ASSERT_TRUE(run(
      backends()[0].context,
      SampleParams{
          .temperature = 1.25f, .seed = 7, .logits = draft_logits, .tokens = drafts, .positions = at, .probs = probs}));
  TensorBox logits(FOVEA_F32, {requests * 2, kVocab}), accepted(FOVEA_I32, {requests}),
      tokens(FOVEA_I32, {requests, 2});
  Tokens cu_nodes = {0}, draft_tokens, rows;
  for (int64_t r = 0; r < requests; ++r) {
    const auto token = static_cast<int64_t>(drafts.get(r));
    draft_tokens.insert(draft_tokens.end(), {0, token});
    rows.insert(rows.end(), {0, r});
    cu_nodes.push_back(2 * r + 2);
    const std::vector<double> first = target.logits({}), second = target.logits({token});
    for (int64_t i = 0; i < kVocab; ++i) {
      logits.set(2 * r * kVocab + i, first[static_cast<size_t>(i)]);
      logits.set((2 * r + 1) * kVocab + i, second[static_cast<size_t>(i)]);
    }
  }
  const TensorBox cu = indices(cu_nodes), token_box = indices(draft_tokens), row_box = indices(rows);
  const SampleParams p{.temperature = 1, .seed = 7, .logits = logits, .positions = at};
  ASSERT_TRUE(run(backends()[0].context, VerifyParams{.target = &p,
                                                      .cu_nodes = cu,
                                                      .draft_tokens = token_box,
                                                      .draft_probs = probs,
                                                      .draft_rows = row_box,
                                                      .accepted = accepted,
                                                      .tokens = tokens}));
  std::vector<double> count(kVocab, 0), second(kVocab, 0);
  for (int64_t r = 0; r < requests; ++r) {
    ++count[static_cast<size_t>(tokens.get(2 * r))];
    if (tokens.get(2 * r) == 2 && accepted.get(r) == 1) ++second[static_cast<size_t>(tokens.get(2 * r + 1))];
  }
  const ChiSquare first = chi_square(count, target.probabilities({})),
                  bonus = chi_square(second, target.probabilities({2}));
  EXPECT_LT(first.ratio, first.limit);
  EXPECT_LT(bonus.ratio, bonus.limit);
}

}  // namespace
