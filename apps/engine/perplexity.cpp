// SPDX-License-Identifier: Apache-2.0
#include "perplexity.h"

#include <algorithm>
#include <chrono>
#include <list>
#include <numeric>
#include <thread>
#include <utility>

#include "graph.h"

namespace fovea::app {
namespace {

// Rows [row, row + size) of a chunk, of which the last `scored` are.
struct Step {
  int64_t row = 0, size = 0, scored = 0;
};

std::vector<Step> steps_of(const Chunks& chunks, int64_t step) {
  std::vector<Step> steps;
  for (int64_t row = 0; row < chunks.tokens - 1; row += step) {  // the last token predicts nothing that is known
    const int64_t size = std::min(step, chunks.tokens - 1 - row);
    steps.push_back({row, size, std::clamp<int64_t>(row + size - chunks.first, 0, size)});
  }
  return steps;
}

KvCache::Shape shape_of(const ModelConfig& c, const KvFormat& format, const Chunks& chunks, int32_t page_size) {
  return {.format = format,
          .layers = c.layers,
          .kv_heads = c.kv_heads,
          .d_k = c.d_k,
          .d_v = c.d_v,
          .page_size = page_size,
          .pages = (chunks.tokens + page_size - 1) / page_size};
}

// One format: a cache of one chunk, and the model over it.
class Lane {
 public:
  Lane(const Context& context, const Model& model, const KvFormat& format, const Chunks& chunks,
       const PerplexityOptions& options, KvScales scales = {})
      : cache_(shape_of(model.config(), format, chunks, options.page_size), std::move(scales)),
        graph_(context, model, cache_,
               GraphLimits{.tokens = step_limit(chunks, options),
                           .sequences = 1,
                           .q_len = step_limit(chunks, options),
                           .kv_len = chunks.tokens,
                           .logit_rows = step_limit(chunks, options)}) {
    pages_.resize(static_cast<size_t>(cache_.shape().pages));
    std::iota(pages_.begin(), pages_.end(), int64_t{0});
  }

  void forward(std::span<const Token> chunk, const Step& step) {
    const auto start = std::chrono::steady_clock::now();
    const auto tokens = chunk.subspan(static_cast<size_t>(step.row), static_cast<size_t>(step.size));
    Batch batch;
    batch.ids.assign(tokens.begin(), tokens.end());
    for (int64_t i = 0; i < step.size; ++i) {
      batch.positions.push_back(static_cast<int32_t>(step.row + i));
      batch.slots.push_back(step.row + i);
      if (i >= step.size - step.scored) batch.logit_rows.push_back(i);
    }
    batch.cu_seqlens_q.push_back(static_cast<int32_t>(step.size));
    batch.kv_lens.push_back(static_cast<int32_t>(step.row + step.size));
    batch.page_tables.push_back(pages_);
    logits_ = graph_.forward(batch);
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    tokens_ += step.size;
  }

  std::span<const float> logits() const { return logits_; }  // of the last step
  const KvCache& cache() const { return cache_; }
  const Graph& graph() const { return graph_; }
  ScoreSums& sums() { return sums_; }

  FormatPerplexity result() const {
    return {.format = cache_.shape().format,
            .scores = sums_.summary(),
            .tokens = tokens_,
            .seconds = seconds_,
            .cache_bytes = cache_.bytes(),
            .cache_bytes_per_token = cache_.bytes_per_token()};
  }

 private:
  static int64_t step_limit(const Chunks& chunks, const PerplexityOptions& options) {
    return std::min(options.step, chunks.tokens - 1);
  }

  KvCache cache_;
  Graph graph_;
  std::vector<int64_t> pages_;
  std::span<const float> logits_;
  ScoreSums sums_;
  int64_t tokens_ = 0;
  double seconds_ = 0;
};

class Measurement {
 public:
  Measurement(const Context& context, const Model& model, const Tokenizer& tokenizer, std::span<const Token> text,
              const PerplexityOptions& options, const PerplexityHooks& hooks)
      : context_(context),
        model_(model),
        tokenizer_(tokenizer),
        text_(text),
        options_(options),
        hooks_(hooks),
        chunks_(chunks_of(std::ssize(text), model.config().context, options)),
        steps_(steps_of(chunks_, options.step)) {}

  PerplexityResult operator()();

 private:
  std::vector<Token> chunk(int64_t index) const;
  KvScales calibrate() const;
  void score(std::span<const Token> chunk, const Step& step);
  void report(int64_t done) const;
  PerplexityResult result(int64_t done) const;

  const Context& context_;
  const Model& model_;
  const Tokenizer& tokenizer_;
  std::span<const Token> text_;
  const PerplexityOptions& options_;
  const PerplexityHooks& hooks_;
  Chunks chunks_;
  std::vector<Step> steps_;
  std::list<Lane> lanes_;  // one for each format
};

std::vector<Token> Measurement::chunk(int64_t index) const {
  const auto start = text_.begin() + index * chunks_.stride;
  std::vector<Token> tokens(start, start + chunks_.tokens);
  if (tokenizer_.adds_bos()) tokens.front() = tokenizer_.bos();
  return tokens;
}

// Scales that map the largest K and V of the first chunk to the largest number of e4m3.
KvScales Measurement::calibrate() const {
  constexpr float kLargest = 448.0f;
  Lane lane(context_, model_, format_of(FOVEA_CODEC_F32), chunks_, options_);
  const std::vector<Token> tokens = chunk(0);
  for (const Step& step : steps_) lane.forward(tokens, {step.row, step.size, 0});
  KvScales scales = lane.cache().peaks(chunks_.tokens - 1);
  for (std::vector<float>* side : {&scales.k, &scales.v}) {
    for (float& x : *side) x = x > 0 ? x / kLargest : 1.0f;
  }
  return scales;
}

// Rows are independent, so they are divided among threads; sums are made in their order.
void Measurement::score(std::span<const Token> chunk, const Step& step) {
  const auto vocab = static_cast<size_t>(model_.config().vocab), lanes = lanes_.size();
  const auto rows = static_cast<size_t>(step.scored);
  const size_t workers = std::clamp<size_t>(static_cast<size_t>(context_.info().threads), 1, std::max<size_t>(rows, 1));
  const int64_t first = step.row + step.size - step.scored;
  std::vector<TokenScore> scores(rows * lanes);
  std::atomic<bool> finite = true;
  const auto work = [&](size_t worker) {
    std::vector<double> weights(vocab);
    std::vector<std::span<const float>> logits(lanes);
    for (size_t row = worker; row < rows; row += workers) {
      std::transform(lanes_.begin(), lanes_.end(), logits.begin(),
                     [&](const Lane& lane) { return lane.logits().subspan(row * vocab, vocab); });
      const Token target = chunk[static_cast<size_t>(first) + row + 1];
      if (!score_token(logits, target, weights, std::span(scores).subspan(row * lanes, lanes))) finite = false;
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 1; i < workers; ++i) threads.emplace_back(work, i);
  work(0);
  for (std::thread& thread : threads) thread.join();
  if (!finite) throw Error("the model's logits are not numbers");
  for (size_t row = 0; row < rows; ++row) {
    const TokenScore* score = &scores[row * lanes];
    size_t i = 0;
    for (Lane& lane : lanes_) lane.sums().add(score[0], score[i++]);
  }
}

PerplexityResult Measurement::result(int64_t done) const {
  PerplexityResult r;
  r.chunks = chunks_;
  r.text_tokens = std::ssize(text_);
  r.done_tokens = done;
  for (const Lane& lane : lanes_) {
    r.formats.push_back(lane.result());
    r.activation_bytes += lane.graph().activation_bytes();
    r.logit_bytes += lane.graph().logit_bytes();
    r.score_bytes += r.formats.back().scores.tokens * static_cast<int64_t>(sizeof(double));
  }
  return r;
}

PerplexityResult Measurement::operator()() {
  KvScales scales;
  for (const KvFormat& format : options_.formats) {
    if (format.has_given_scales() && scales.k.empty()) scales = calibrate();
    KvScales given;
    if (format.k.has_given_scales()) given.k = scales.k;
    if (format.v.has_given_scales()) given.v = scales.v;
    lanes_.emplace_back(context_, model_, format, chunks_, options_, std::move(given));
  }
  const int64_t total = chunks_.count * (chunks_.tokens - 1);
  int64_t done = 0;
  std::vector<double> perplexities(lanes_.size());
  for (int64_t c = 0; c < chunks_.count; ++c) {
    const std::vector<Token> tokens = chunk(c);
    for (const Step& step : steps_) {
      if (hooks_.interrupt != nullptr && hooks_.interrupt->load()) return result(done);
      for (Lane& lane : lanes_) lane.forward(tokens, step);
      score(tokens, step);
      done += step.size;
      if (!hooks_.on_step) continue;
      std::transform(lanes_.begin(), lanes_.end(), perplexities.begin(), [](Lane& l) { return l.sums().perplexity(); });
      hooks_.on_step(done, total, perplexities);
    }
  }
  return result(done);
}

}  // namespace

Chunks chunks_of(int64_t text_tokens, int64_t model_context, const PerplexityOptions& o) {
  if (text_tokens < 2) {
    throw Error("the text has " + std::to_string(text_tokens) + " tokens, at least 2 are needed to predict one");
  }
  if (o.ctx > model_context) {
    throw Error("a chunk of " + std::to_string(o.ctx) + " tokens is more than the model's context of " +
                std::to_string(model_context));
  }
  Chunks c{.tokens = std::min(o.ctx, text_tokens)};
  if (o.stride >= c.tokens) {
    throw Error("a stride of " + std::to_string(o.stride) + " tokens must be less than the chunk's " +
                std::to_string(c.tokens));
  }
  if (o.stride > 0) {
    c.stride = o.stride;
    c.first = c.tokens - 1 - o.stride;
    c.count = std::max<int64_t>(1, (text_tokens - c.tokens + o.stride - 1) / o.stride);
  } else {
    c.stride = c.tokens;
    c.first = std::min(c.tokens / 2, c.tokens - 2);
    c.count = text_tokens / c.tokens;
  }
  if (o.chunks > 0) c.count = std::min(c.count, o.chunks);
  return c;
}

std::vector<Token> perplexity_tokens(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<Token> tokens = tokenizer.encode(text, false);
  if (tokenizer.adds_bos()) tokens.insert(tokens.begin(), tokenizer.bos());
  return tokens;
}

PerplexityResult measure_perplexity(const Context& context, const Model& model, const Tokenizer& tokenizer,
                                    std::span<const Token> text, const PerplexityOptions& options,
                                    const PerplexityHooks& hooks) {
  if (options.formats.empty()) throw Error("give at least one KV format");
  if (options.ctx < 2) throw Error("a chunk must have at least 2 tokens");
  if (options.step < 1) throw Error("a step must have at least 1 token");
  if (options.page_size < 1) throw Error("the page size must be at least 1 token");
  return Measurement(context, model, tokenizer, text, options, hooks)();
}

}  // namespace fovea::app
