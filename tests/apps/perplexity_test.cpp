// SPDX-License-Identifier: Apache-2.0
// Perplexity on a tiny model against plain f64 arithmetic, and against itself however the work is cut.
#include "engine/perplexity.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "apps/model_file.h"
#include "apps/tiny_engine.h"

namespace fovea::app {
namespace {

using test::random_tokens;
using test::TinyConfig;
using test::TinyEngine;
using test::TinyModel;

std::vector<KvFormat> formats(std::initializer_list<std::string_view> names) {
  std::vector<KvFormat> out;
  for (const std::string_view name : names) out.push_back(parse_kv_format(name));
  return out;
}

PerplexityOptions options(std::initializer_list<std::string_view> names, int64_t ctx) {
  PerplexityOptions o;
  o.formats = formats(names);
  o.ctx = ctx;
  o.step = 7;
  o.page_size = 5;
  return o;
}

template <class Function>
std::string message_of(Function function) {
  try {
    function();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

PerplexityResult measure(const TinyEngine& e, std::span<const Token> text, const PerplexityOptions& o,
                         const PerplexityHooks& hooks = {}) {
  return measure_perplexity(e.context, e.model, e.tokenizer, text, o, hooks);
}

double reference_nll(const TinyModel& model, const std::vector<Token>& before, Token target) {
  const std::vector<double> logits = model.logits(before);
  double sum = 0;
  for (const double x : logits) sum += std::exp(x);
  return std::log(sum) - logits[static_cast<size_t>(target)];
}

// exp of the mean nll of rows [first, ctx - 1) of chunks that start `stride` tokens apart.
double reference_perplexity(const TinyModel& model, const std::vector<Token>& text, int64_t ctx, int64_t first,
                            int64_t stride, int64_t chunks, Token bos = -1) {
  double sum = 0;
  int64_t count = 0;
  for (int64_t c = 0; c < chunks; ++c) {
    std::vector<Token> chunk(text.begin() + c * stride, text.begin() + c * stride + ctx);
    if (bos >= 0) chunk[0] = bos;
    for (int64_t row = first; row + 1 < ctx; ++row, ++count) {
      sum += reference_nll(model, {chunk.begin(), chunk.begin() + row + 1}, chunk[static_cast<size_t>(row + 1)]);
    }
  }
  return std::exp(sum / static_cast<double>(count));
}

TEST(Perplexity, ChunksAreThoseOfLlamaPerplexity) {
  PerplexityOptions o;
  const auto expect = [&](int64_t text, const Chunks& want) {
    const Chunks have = chunks_of(text, 4096, o);
    EXPECT_EQ(have.tokens, want.tokens) << text;
    EXPECT_EQ(have.stride, want.stride) << text;
    EXPECT_EQ(have.first, want.first) << text;
    EXPECT_EQ(have.count, want.count) << text;
  };
  expect(1023, {512, 512, 256, 1});
  expect(1024, {512, 512, 256, 2});
  expect(300, {300, 300, 150, 1});  // a text shorter than a chunk is one chunk
  expect(2, {2, 2, 0, 1});
  expect(3, {3, 3, 1, 1});
  o.chunks = 3;
  expect(1024, {512, 512, 256, 2});
  expect(5000, {512, 512, 256, 3});
  o.chunks = 0;
  o.ctx = 511;
  expect(5000, {511, 511, 255, 9});
  o.ctx = 512;
  o.stride = 100;
  expect(512, {512, 100, 411, 1});
  expect(712, {512, 100, 411, 2});
  expect(713, {512, 100, 411, 3});
}

TEST(Perplexity, ImpossibleWishesAreNamed) {
  PerplexityOptions o;
  o.formats = formats({"f32"});
  const auto fault = [&](int64_t text) { return message_of([&] { chunks_of(text, 1000, o); }); };
  EXPECT_EQ(fault(0), "the text has 0 tokens, at least 2 are needed to predict one");
  EXPECT_EQ(fault(1), "the text has 1 tokens, at least 2 are needed to predict one");
  o.stride = 512;
  EXPECT_EQ(fault(5000), "a stride of 512 tokens must be less than the chunk's 512");
  o.stride = 0;
  o.ctx = 1001;
  EXPECT_EQ(fault(5000), "a chunk of 1001 tokens is more than the model's context of 1000");
  const TinyEngine e;
  const std::vector<Token> text = random_tokens(1, 20);
  const auto run_fault = [&](PerplexityOptions p) { return message_of([&] { measure(e, text, p); }); };
  EXPECT_EQ(run_fault(options({}, 16)), "give at least one KV format");
  EXPECT_EQ(run_fault(options({"f32"}, 1)), "a chunk must have at least 2 tokens");
  PerplexityOptions p = options({"f32"}, 16);
  p.step = 0;
  EXPECT_EQ(run_fault(p), "a step must have at least 1 token");
  p.step = 1;
  p.page_size = 0;
  EXPECT_EQ(run_fault(p), "the page size must be at least 1 token");
}

TEST(Perplexity, IsThatOfTheF64Model) {
  const TinyEngine e;
  const std::vector<Token> text = random_tokens(3, 77);
  const PerplexityResult r = measure(e, text, options({"f32", "f16", "fp8"}, 24));
  const double want = reference_perplexity(e.tiny, text, 24, 12, 24, 3);
  EXPECT_EQ(r.chunks.count, 3);
  EXPECT_EQ(r.formats[0].scores.tokens, 3 * 11);
  EXPECT_EQ(r.formats[0].tokens, 3 * 23);
  EXPECT_NEAR(r.formats[0].scores.perplexity, want, 1e-4 * want);
  EXPECT_NEAR(r.formats[1].scores.perplexity, want, 1e-2 * want);
  EXPECT_NEAR(r.formats[2].scores.perplexity, want, 0.3 * want);
}

TEST(Perplexity, StridedIsThatOfTheF64Model) {
  const TinyEngine e;
  const std::vector<Token> text = random_tokens(4, 60);
  PerplexityOptions o = options({"f32"}, 20);
  o.stride = 9;
  const PerplexityResult r = measure(e, text, o);
  const double want = reference_perplexity(e.tiny, text, 20, 10, 9, 5);
  EXPECT_EQ(r.formats[0].scores.tokens, 5 * 9);
  EXPECT_NEAR(r.formats[0].scores.perplexity, want, 1e-4 * want);
}

TEST(Perplexity, ChunksOfAModelWithBosBeginWithIt) {
  const TinyModel tiny{TinyConfig{}};
  test::GgufWriter writer = tiny.writer();
  writer.u32("tokenizer.ggml.bos_token_id", 1).boolean("tokenizer.ggml.add_bos_token", true);
  const TinyEngine e(tiny, writer, 2);
  const std::vector<Token> text = perplexity_tokens(e.tokenizer, std::string(40, 'x') + "<|end|>");
  EXPECT_EQ(text[0], 1);
  EXPECT_EQ(std::ssize(text), 48);  // a control token in a text is plain characters
  const PerplexityResult r = measure(e, text, options({"f32"}, 16));
  const double want = reference_perplexity(e.tiny, text, 16, 8, 16, 3, 1);
  EXPECT_NEAR(r.formats[0].scores.perplexity, want, 1e-4 * want);
  EXPECT_GT(std::abs(reference_perplexity(e.tiny, text, 16, 8, 16, 3) - want), 1e-2 * want);
}

TEST(Perplexity, NoCutOfTheWorkChangesABit) {
  const std::vector<Token> text = random_tokens(5, 70);
  std::vector<ScoreSummary> first;
  for (const auto& [threads, step, page] : {std::tuple{1, 1, 1}, {2, 7, 5}, {3, 128, 16}, {2, 22, 64}}) {
    const TinyEngine e({}, threads);
    PerplexityOptions o = options({"f16", "fp8:head", "fp8:group4"}, 23);
    o.step = step;
    o.page_size = page;
    const PerplexityResult r = measure(e, text, o);
    for (size_t i = 0; i < r.formats.size(); ++i) {
      const ScoreSummary& s = r.formats[i].scores;
      if (first.size() == i) first.push_back(s);
      EXPECT_EQ(s.perplexity, first[i].perplexity) << step;
      EXPECT_EQ(s.kl_mean, first[i].kl_mean) << step;
      EXPECT_EQ(s.kl_p99, first[i].kl_p99) << step;
      EXPECT_EQ(s.agreement, first[i].agreement) << step;
    }
  }
}

TEST(Perplexity, FormatsBesideOthersAreWhatTheyAreAlone) {
  const TinyEngine e;
  const std::vector<Token> text = random_tokens(6, 64);
  const std::initializer_list<std::string_view> names = {"f32",      "f16", "bf16",      "fp8:tensor",
                                                         "fp8:head", "fp8", "fp8:group4"};
  const PerplexityResult all = measure(e, text, options(names, 32));
  const FormatPerplexity& f32 = all.formats[0];
  EXPECT_EQ(f32.scores.delta, 0);
  EXPECT_EQ(f32.scores.kl_max, 0);
  EXPECT_EQ(f32.scores.agreement, 1);
  for (size_t i = 0; i < names.size(); ++i) {
    const FormatPerplexity& f = all.formats[i];
    EXPECT_EQ(f.scores.perplexity, measure(e, text, options({names.begin()[i]}, 32)).formats[0].scores.perplexity);
    EXPECT_EQ(f.scores.delta, f.scores.perplexity - f32.scores.perplexity);
    if (i == 0) continue;
    EXPECT_GT(f.scores.kl_mean, 0) << f.format.name();
    EXPECT_LT(f.scores.kl_mean, i < 3 ? 1e-3 : 0.2) << f.format.name();
    EXPECT_GE(f.scores.kl_p99, f.scores.kl_mean) << f.format.name();
    EXPECT_GE(f.scores.kl_max, f.scores.kl_p99) << f.format.name();
  }
  // 2 layers, 2 kv heads, 8 dims of K and V; pages of 5 tokens: 80 vectors of a byte each are 2 aligned pieces of 128.
  EXPECT_EQ(all.formats[5].cache_bytes_per_token, 2.0 * (128 + 128 + 2 * 10 * 4 + 48) / 5);
}

// Codes in the library's records, beside formats in records of the engine.
TEST(Perplexity, CodesCostTheirBitsAndNoMore) {
  const TinyEngine e(TinyConfig{.hidden = 64, .heads = 4, .kv_heads = 2, .d = 32});
  const std::vector<Token> text = random_tokens(9, 120);
  PerplexityOptions o =
      options({"f32", "i8", "turbo8i", "turbo6", "turbo4", "turbo3s", "turbo2", "turbo8", "bf16/q6", "fp8"}, 40);
  o.page_size = 64;
  const PerplexityResult r = measure(e, text, o);
  // Of K and V of 2 layers and 2 heads, with a scale of 16 bits each; turbo8's of K are the model's.
  const double bytes[] = {4 * 2 * 128, 4 * 2 * 34, 4 * (34 + 18), 4 * (26 + 18), 4 * 2 * 18,
                          4 * 2 * 14,  4 * 2 * 10, 4 * (32 + 18), 4 * (64 + 26), 4 * 2 * 36};
  for (size_t i = 0; i < r.formats.size(); ++i) {
    const FormatPerplexity& f = r.formats[i];
    EXPECT_EQ(f.cache_bytes_per_token, bytes[i]) << f.format.name();
    if (i == 0) continue;
    EXPECT_GT(f.scores.kl_mean, 0) << f.format.name();
    if (i < 2 || i > 6) continue;
    EXPECT_GT(f.scores.kl_mean, r.formats[i - 1].scores.kl_mean) << f.format.name();
  }
  const double fp8 = r.formats[9].scores.kl_mean;
  EXPECT_LT(r.formats[1].scores.kl_mean, fp8 / 10);
  EXPECT_LT(r.formats[8].scores.kl_mean, fp8);
  PerplexityOptions small = options({"turbo4"}, 40);
  small.page_size = 5;
  EXPECT_EQ(message_of([&] { measure(e, text, small); }), "kv.page_size is 5: must be 16, 32, 64 or 128 in records");
}

TEST(Perplexity, InterruptGivesWhatWasDone) {
  const TinyEngine e;
  const std::vector<Token> text = random_tokens(7, 64);
  std::atomic<bool> interrupt = false;
  PerplexityHooks hooks;
  hooks.interrupt = &interrupt;
  int64_t steps = 0, total_seen = 0;
  hooks.on_step = [&](int64_t done, int64_t total, std::span<const double> perplexities) {
    EXPECT_EQ(std::isnan(perplexities[0]), steps < 2) << done;  // 7 and 14 tokens: rows from 16 on are scored
    interrupt = ++steps == 5;
    total_seen = total;
  };
  const PerplexityResult r = measure(e, text, options({"f32"}, 32), hooks);
  EXPECT_EQ(steps, 5);
  EXPECT_EQ(total_seen, 62);
  EXPECT_EQ(r.done_tokens, 31);  // 7 * 4 + 3: the first chunk
  EXPECT_EQ(r.formats[0].scores.tokens, 15);
}

TEST(Perplexity, LogitsOfOneStepAreAllThatIsKept) {
  const TinyEngine e;
  const PerplexityResult r = measure(e, random_tokens(8, 200), options({"f32", "f16"}, 40));
  EXPECT_EQ(r.logit_bytes, 2 * 7 * 261 * 4);
  EXPECT_EQ(r.score_bytes, 2 * 5 * 19 * 8);
  EXPECT_GT(r.activation_bytes, 2 * 7 * 32 * 4);
}

// The expected figure is that of fixtures/perplexity_f64.py.
TEST(Perplexity, RealModelIsThatOfTheF64Model) {
  FOVEA_NEEDS_MODEL();
  const Context context;
  const Model model(Gguf::open(test::model_path()));
  const Tokenizer tokenizer(TokenizerSpec::from_gguf(model.file()));
  std::ifstream in(std::string(FOVEA_SOURCE_DIR) + "/LICENSE");
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  const std::vector<Token> tokens = perplexity_tokens(tokenizer, text);
  ASSERT_EQ(tokens.size(), 2215u);
  PerplexityOptions o;
  o.formats = formats({"f32", "f16"});
#ifdef __SANITIZE_ADDRESS__  // a hundred times slower
  o.ctx = 64, o.chunks = 1;
  const int64_t scored = 31;
  const double perplexity = 23.23947956;
#else
  o.ctx = 512, o.chunks = 2;
  const int64_t scored = 510;
  const double perplexity = 13.21639406;
#endif
  const PerplexityResult r = measure_perplexity(context, model, tokenizer, tokens, o);
  const ScoreSummary f32 = r.formats[0].scores, f16 = r.formats[1].scores;
  EXPECT_EQ(f32.tokens, scored);
  EXPECT_NEAR(f32.perplexity, perplexity, 2e-6 * perplexity);
  EXPECT_NEAR(f16.perplexity, f32.perplexity, 1e-3 * perplexity);
  EXPECT_LT(std::abs(f16.delta), 5 * f16.delta_error);
  EXPECT_LT(f16.kl_mean, 1e-5);
  EXPECT_LT(f16.kl_p99, 1e-4);
  EXPECT_GT(f16.agreement, 0.99);
  EXPECT_EQ(r.formats[0].cache_bytes_per_token, 30 * 3 * (64 + 64) * 4);
}

TEST(KvFormat, NamesAreReadAndWritten) {
  for (const char* name : {"f32",    "f16",     "bf16",   "fp8:tensor", "fp8:head", "fp8:token_head",   "fp8:group32",
                           "i8",     "q6",      "q5",     "turbo8",     "turbo8i",  "turbo6",           "turbo4",
                           "turbo3", "turbo3s", "turbo2", "q6/q3",      "bf16/q4",  "fp8:token_head/q4"}) {
    EXPECT_EQ(parse_kv_format(name).name(), name);
  }
  EXPECT_EQ(parse_kv_format("fp8").name(), "fp8:token_head");
  EXPECT_EQ(parse_kv_format("q4/q4").name(), "turbo4");
  EXPECT_EQ(parse_kv_format("q4").name(), "turbo4");
  for (const char* name : {"", "f15", "fp8:", "fp8:none", "fp8:group", "fp8:group0", "fp8:group-4", "fp8:group4x",
                           "f16:head", "q4:head", "q4/", "/q4", "q4/q4/q4", "turbo4/q4", "turbo5"}) {
    EXPECT_EQ(
        message_of([&] { parse_kv_format(name); }),
        "KV format '" + std::string(name) +
            "' does not exist, allowed are f32, f16, bf16, fp8, i8, q6, q5, q4, q3, q2, fp8:tensor, fp8:head, "
            "fp8:token_head, fp8:groupN (N dims), turbo8, turbo8i, turbo6, turbo4, turbo3, turbo3s, turbo2, K/V of "
            "two that stand for one side");
  }
}

TEST(KvFormat, GivenScalesMustFit) {
  const KvCache::Shape shape{
      .format = parse_kv_format("fp8:head"), .layers = 2, .kv_heads = 3, .d_k = 8, .d_v = 8, .pages = 1};
  EXPECT_EQ(message_of([&] { KvCache cache(shape); }),
            "KV format fp8:head takes 6 scales of K and 6 of V, given are 0 and 0");
  const KvCache cache(shape, {{1, 2, 3, 4, 5, 6}, {7, 8, 9, 10, 11, 12}});
  const Kv kv = cache.layer(1);
  EXPECT_EQ(static_cast<const float*>(kv.k.scale.base)[2], 6);
  EXPECT_EQ(static_cast<const float*>(kv.v.scale.base)[0], 10);
  KvCache::Shape tensor = shape;
  tensor.format = parse_kv_format("fp8:tensor");
  const KvCache one(tensor, {{1, 5, 3, 4, 2, 6}, {7, 8, 9, 12, 11, 10}});
  EXPECT_EQ(*static_cast<const float*>(one.layer(0).k.scale.base), 5);
  EXPECT_EQ(*static_cast<const float*>(one.layer(1).v.scale.base), 12);
}

}  // namespace
}  // namespace fovea::app
