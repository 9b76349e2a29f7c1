// SPDX-License-Identifier: Apache-2.0
// The engine on a tiny random model: against plain f64 arithmetic, and against itself under every way of cutting the
// work, which may not change a bit.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "apps/tiny_engine.h"

namespace fovea::app {
namespace {

using Fixture = test::TinyEngine;
using test::random_tokens;
using test::TinyConfig;
using test::TinyModel;
using Tokens = std::vector<Token>;

struct Trace {
  RunResult result;
  std::vector<std::vector<float>> logits;  // of all steps of each request, one after the other

  Tokens tokens(size_t request) const { return result.answers[request].tokens; }
};

Trace trace(const Fixture& s, const EngineOptions& options, const std::vector<Request>& requests) {
  Trace t;
  t.logits.resize(requests.size());
  Hooks hooks;
  hooks.on_logits = [&](size_t request, std::span<const float> row) {
    t.logits[request].insert(t.logits[request].end(), row.begin(), row.end());
  };
  t.result = Engine(s.context, s.model, s.tokenizer, options).run(requests, hooks);
  return t;
}

std::vector<Request> requests(const std::vector<Tokens>& prompts, int64_t max_new_tokens,
                              const Sampling& sampling = {}) {
  std::vector<Request> out;
  for (const Tokens& prompt : prompts) out.push_back({prompt, max_new_tokens, sampling});
  return out;
}

EngineOptions precise() {
  EngineOptions o;
  o.kv = format_of(FOVEA_CODEC_F32);
  o.page_size = 4;
  return o;
}

void expect_near_reference(const TinyConfig& config, int32_t codec, double tolerance) {
  const Fixture s(config);
  const Tokens prompt = random_tokens(1, 21);
  EngineOptions options = precise();
  options.kv = format_of(codec);
  options.chunk = 8;
  const Trace t = trace(s, options, requests({prompt}, 4));
  Tokens all = prompt;
  const auto vocab = static_cast<size_t>(config.vocab);
  for (size_t step = 0; step * vocab < t.logits[0].size(); ++step) {
    const std::vector<double> expected = s.tiny.logits(all);
    double scale = 0;
    for (const double v : expected) scale = std::max(scale, std::abs(v));
    for (size_t i = 0; i < vocab; ++i) {
      ASSERT_NEAR(t.logits[0][step * vocab + i], expected[i], tolerance * scale) << "step " << step << " token " << i;
    }
    if (step < t.tokens(0).size()) all.push_back(t.tokens(0)[step]);
  }
}

TEST(Engine, LogitsAreThoseOfThePlainModel) {
  expect_near_reference({}, FOVEA_CODEC_F32, 1e-5);
}
TEST(Engine, BiasesAndAnOutputMatrixOfItsOwn) {
  expect_near_reference({.tied = false, .biases = true}, FOVEA_CODEC_F32, 1e-5);
}
TEST(Engine, SlidingWindow) {
  expect_near_reference({.window = 7}, FOVEA_CODEC_F32, 1e-5);
}
TEST(Engine, RopeFactorsFromTheFile) {
  expect_near_reference({.rope_freqs = true}, FOVEA_CODEC_F32, 1e-5);
}
TEST(Engine, Qwen2TurnsHalves) {
  expect_near_reference({.biases = true, .architecture = "qwen2"}, FOVEA_CODEC_F32, 1e-5);
}
TEST(Engine, NarrowCaches) {
  expect_near_reference({}, FOVEA_CODEC_F16, 3e-3);
  expect_near_reference({}, FOVEA_CODEC_BF16, 3e-2);
  expect_near_reference({}, FOVEA_CODEC_FP8, 2e-1);
}

// One request alone, in one chunk, is the measure; nothing else about the run may matter.
TEST(Engine, NoWayOfCuttingTheWorkChangesABit) {
  const Tokens common = random_tokens(2, 13);
  std::vector<Tokens> prompts;
  for (const size_t own : {3, 1, 9, 17}) {
    Tokens prompt = common;
    const Tokens rest = random_tokens(static_cast<unsigned>(own), own);
    prompt.insert(prompt.end(), rest.begin(), rest.end());
    prompts.push_back(prompt);
  }
  prompts.push_back(prompts[2]);
  prompts.push_back(random_tokens(77, 1));
  const Fixture s;
  std::vector<Trace> alone;
  for (const Tokens& prompt : prompts) alone.push_back(trace(s, precise(), requests({prompt}, 6)));

  const auto expect_same = [&](const EngineOptions& options, const Fixture& setup, const char* what) {
    const Trace together = trace(setup, options, requests(prompts, 6));
    for (size_t i = 0; i < prompts.size(); ++i) {
      EXPECT_EQ(together.tokens(i), alone[i].tokens(0)) << what << ", request " << i;
      EXPECT_EQ(together.logits[i], alone[i].logits[0]) << what << ", request " << i;
    }
    return together;
  };
  const Trace shared = expect_same(precise(), s, "together");
  EXPECT_GT(shared.result.stats.shared_tokens, 40);
  EXPECT_GT(shared.result.stats.copied_pages, 0);
  EngineOptions o = precise();
  o.share_prefixes = false;
  EXPECT_EQ(expect_same(o, s, "unshared").result.stats.shared_tokens, 0);
  for (const int64_t chunk : {1, 2, 5, 64}) {
    o = precise();
    o.chunk = chunk;
    expect_same(o, s, "chunk");
  }
  for (const int32_t page_size : {1, 3, 16, 100}) {
    o = precise();
    o.page_size = page_size;
    expect_same(o, s, "page size");
  }
  o = precise();
  o.max_sequences = 2;
  expect_same(o, s, "two at once");
  o = precise();
  o.cache_tokens = 48;
  expect_same(o, s, "small cache");
  expect_same(precise(), Fixture({}, 1), "one thread");
}

TEST(Engine, DrawsDependOnTheSeedAlone) {
  const Fixture s;
  const std::vector<Tokens> prompts = {random_tokens(1, 5), random_tokens(1, 5), random_tokens(3, 9)};
  std::vector<Request> all = requests(prompts, 20, {.temperature = 1.5f, .top_k = 50, .top_p = 0.95f, .seed = 4});
  all[1].sampling.seed = 5;
  const Trace together = trace(s, precise(), all);
  EXPECT_NE(together.tokens(0), together.tokens(1));
  EngineOptions o = precise();
  o.chunk = 3;
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(trace(s, o, {all[i]}).tokens(0), together.tokens(i));
}

TEST(Engine, SamplingOptionsReachTheirOwnRequest) {
  const Fixture s;
  std::vector<Request> all = requests({random_tokens(1, 5), random_tokens(1, 5), random_tokens(1, 5)}, 12);
  all[1].sampling = {.temperature = 5.0f, .top_k = 1, .seed = 9};   // the best token, whatever the temperature
  all[2].sampling = {.temperature = 50.0f, .top_k = 0, .seed = 9};  // nearly uniform
  const Trace t = trace(s, precise(), all);
  EXPECT_EQ(t.tokens(1), t.tokens(0));
  EXPECT_NE(t.tokens(2), t.tokens(0));
}

// Of one request alone, whatever stands beside it.
TEST(Engine, PenaltiesAndLogprobsReachTheirOwnRequest) {
  const Fixture s;
  std::vector<Request> all = requests({random_tokens(1, 5), random_tokens(1, 5), random_tokens(1, 5)}, 12);
  const Trace plain = trace(s, precise(), {all[0]});
  all[1].sampling = {.frequency_penalty = 1e3f};
  all[2].sampling = {.logprobs = 2};
  const Trace t = trace(s, precise(), all);
  EXPECT_EQ(t.tokens(0), plain.tokens(0));
  EXPECT_EQ(t.tokens(2), plain.tokens(0));
  const Tokens distinct = t.tokens(1);
  EXPECT_EQ(std::set<Token>(distinct.begin(), distinct.end()).size(), distinct.size()) << "no token twice";
  EXPECT_NE(distinct, plain.tokens(0));
  EXPECT_EQ(trace(s, precise(), {all[1]}).tokens(0), distinct);
  EXPECT_TRUE(t.result.answers[0].logprobs.empty());
  const std::vector<TokenLogprobs>& logprobs = t.result.answers[2].logprobs;
  ASSERT_EQ(logprobs.size(), t.tokens(2).size());
  const auto vocab = static_cast<int64_t>(TinyConfig().vocab);
  for (size_t i = 0; i < logprobs.size(); ++i) {
    const auto first = t.logits[2].begin() + static_cast<int64_t>(i) * vocab;
    double total = 0;
    for (auto x = first; x != first + vocab; ++x) total += std::exp(static_cast<double>(*x));
    const double want = static_cast<double>(first[t.tokens(2)[i]]) - std::log(total);
    EXPECT_NEAR(logprobs[i].logprob, want, 1e-4);
    ASSERT_EQ(logprobs[i].top.size(), 2u);
    EXPECT_EQ(logprobs[i].top[0], (std::pair{t.tokens(2)[i], logprobs[i].logprob}));
  }
}

TEST(Engine, FinishesForTheReasonItNames) {
  const Fixture s;
  const Tokens prompt = random_tokens(6, 40);
  const Trace length = trace(s, precise(), requests({prompt}, 3));
  EXPECT_EQ(length.tokens(0).size(), 3u);
  EXPECT_EQ(length.result.answers[0].finish, Finish::kLength);
  const Trace context = trace(s, precise(), requests({prompt}, 100));
  if (context.result.answers[0].finish != Finish::kEnd) {
    EXPECT_EQ(context.result.answers[0].finish, Finish::kContext);
    EXPECT_EQ(context.tokens(0).size(), 48u - 40u + 1u);  // the last token drawn is not fed back
  }
}

TEST(Engine, StopsAtAnEndToken) {
  Fixture s;
  const Tokens prompt = random_tokens(6, 10);
  const Tokens free_run = trace(s, precise(), requests({prompt}, 6)).tokens(0);
  ASSERT_EQ(free_run.size(), 6u);
  TokenizerSpec spec = TokenizerSpec::from_gguf(s.model.file());
  spec.ends = {free_run[3]};
  s.tokenizer = Tokenizer(spec);
  const Trace stopped = trace(s, precise(), requests({prompt}, 6));
  const auto first = std::find(free_run.begin(), free_run.end(), free_run[3]);
  EXPECT_EQ(stopped.tokens(0), Tokens(free_run.begin(), first));
  EXPECT_EQ(stopped.result.answers[0].finish, Finish::kEnd);
  std::vector<Request> going_on = requests({prompt}, 6);
  going_on[0].stops_at_end = false;
  const Trace whole = trace(s, precise(), going_on);
  EXPECT_EQ(whole.tokens(0), free_run);
  EXPECT_EQ(whole.result.answers[0].finish, Finish::kLength);
}

TEST(Engine, HooksAndInterrupt) {
  const Fixture s;
  std::atomic<bool> interrupt = false;
  std::vector<Tokens> seen(2);
  std::set<size_t> finished;
  std::vector<int64_t> read;
  Hooks hooks;
  hooks.on_token = [&](size_t request, Token token) {
    seen[request].push_back(token);
    interrupt = seen[1].size() == 4;
  };
  hooks.on_finish = [&](size_t request, const Answer&) { finished.insert(request); };
  hooks.on_prompt = [&](int64_t done, int64_t total) {
    EXPECT_EQ(total, 14);
    read.push_back(done);
  };
  hooks.interrupt = &interrupt;
  std::vector<Request> two = requests({random_tokens(1, 5), random_tokens(2, 9)}, 30);
  two[0].max_new_tokens = 2;
  EngineOptions o = precise();
  o.chunk = 6;
  const RunResult r = Engine(s.context, s.model, s.tokenizer, o).run(two, hooks);
  EXPECT_EQ(r.answers[0].tokens, seen[0]);
  EXPECT_EQ(r.answers[1].tokens, seen[1]);
  EXPECT_EQ(finished, (std::set<size_t>{0}));
  EXPECT_EQ(r.answers[1].finish, Finish::kInterrupted);
  EXPECT_EQ(read, (std::vector<int64_t>{6, 12, 14}));
}

TEST(Engine, StatsAddUp) {
  const Fixture s;
  const Trace t = trace(s, precise(), requests({random_tokens(1, 9), random_tokens(2, 4)}, 5));
  const RunStats& stats = t.result.stats;
  EXPECT_EQ(stats.prompt_tokens, 13);
  EXPECT_EQ(stats.prefill_tokens, 13);
  EXPECT_EQ(stats.generated_tokens, 10);
  EXPECT_EQ(stats.decode_tokens, 8);
  EXPECT_EQ(stats.cache_bytes_per_token, 2 * 2 * (8 + 8) * 4);  // layers, kv heads, K and V, f32
  EXPECT_GT(stats.prefill_seconds, 0);
  int attention = 0;
  for (const auto& [explanation, calls] : stats.decode_kernels) {
    EXPECT_NE(explanation, "");
    if (explanation.rfind("attention", 0) == 0) attention += calls;
  }
  EXPECT_EQ(attention, 2);
}

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

TEST(Engine, ImpossibleRequestsAreRefused) {
  const Fixture s;
  const auto message = [&](const EngineOptions& o, const std::vector<Request>& r) {
    return message_of([&] { Engine(s.context, s.model, s.tokenizer, o).run(r); });
  };
  EXPECT_EQ(message(precise(), requests({{2, 3}, {}}, 4)), "prompt 2 is empty");
  EXPECT_EQ(message(precise(), requests({{2, 3}}, 0)), "prompt 1: at least one new token must be asked for");
  EXPECT_EQ(message(precise(), requests({random_tokens(1, 49)}, 1)),
            "prompt 1 has 49 tokens, the model's context is 48");
  EXPECT_NE(message(precise(), requests({{2, 261}}, 1)).find("token 261 is outside"), std::string::npos);
  EngineOptions o = precise();
  o.cache_tokens = 8;
  EXPECT_NE(message(o, requests({random_tokens(1, 9)}, 1)).find("KV cache of 8 tokens is too small"),
            std::string::npos);
  o = precise();
  o.page_size = 0;
  EXPECT_NE(message(o, {}).find("page size"), std::string::npos);
}

TEST(Model, FaultyFilesAreNamed) {
  const auto message = [](test::GgufWriter w) {
    const std::vector<std::byte> bytes = test::GgufWriter::bytes(w.image());
    return message_of([&] { Model(Gguf::parse(bytes, "m")); });
  };
  const test::GgufWriter good = TinyModel({}).writer();
  EXPECT_EQ(message(good), "");
  const auto with_tensor = [&](const std::string& name, const std::function<void(test::GgufWriter::Tensor*)>& change) {
    test::GgufWriter w = good;
    for (test::GgufWriter::Tensor& t : w.tensors) {
      if (t.name == name) change(&t);
    }
    return w;
  };
  EXPECT_EQ(message(with_tensor("blk.1.ffn_up.weight", [](auto* t) { t->name = "blk.1.ffn_uq.weight"; })),
            "m: tensor 'blk.1.ffn_up.weight' is missing");
  EXPECT_EQ(message(with_tensor("blk.0.attn_k.weight", [](auto* t) { std::swap(t->dims[0], t->dims[1]); })),
            "m: tensor 'blk.0.attn_k.weight' has shape [32, 16], wanted [16, 32]");
  EXPECT_EQ(message(with_tensor("blk.0.attn_k.weight", [](auto* t) { t->type = 26; })),
            "m: tensor 'blk.0.attn_k.weight' has type I32, supported are F32, F16, BF16, Q4_1, Q8_0, Q4_0, Q5_0, Q5_1, "
            "Q2_K, Q3_K, "
            "Q4_K, Q5_K, Q6_K, IQ4_NL, MXFP4");
  EXPECT_EQ(message(with_tensor("blk.0.ffn_up.weight", [](auto* t) { t->type = 99; })).substr(0, 53),
            "m: tensor 'blk.0.ffn_up.weight' has unknown type 99 (");
  test::GgufWriter w = good;
  w.tensor("blk.0.attn_q_norm.weight", {8}, 0, std::string(32, '\0'));
  EXPECT_NE(message(w).find("this variant is not supported"), std::string::npos);
  const auto with_pair = [&](const std::string& key, const std::string& encoded) {
    test::GgufWriter changed = good;
    std::erase_if(changed.pairs, [&](const auto& pair) { return pair.first == key; });
    return changed.add(key, encoded);
  };
  const auto u32 = [](uint32_t v) { return test::GgufWriter::raw<uint32_t>(4) + test::GgufWriter::raw(v); };
  EXPECT_EQ(message(with_pair("llama.attention.head_count_kv", u32(4))),
            "m: 6 query heads cannot share 4 kv heads evenly");
  EXPECT_EQ(message(with_pair("llama.block_count", u32(0))),
            "m: metadata 'llama.block_count' is 0, allowed are 1 to 2^30");
  EXPECT_EQ(message(with_pair("llama.expert_count", u32(8))), "m: mixture of 8 experts is not supported");
}

}  // namespace
}  // namespace fovea::app
