// SPDX-License-Identifier: Apache-2.0
#include "engine.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "scheduler.h"

namespace fovea::app {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

int64_t pages_for(int64_t tokens, int64_t page_size) {
  return (tokens + page_size - 1) / page_size;
}

// One call of Engine::run.
class Run {
 public:
  Run(const Context& context, const Model& model, const Tokenizer& tokenizer, const EngineOptions& options,
      std::span<const Request> requests, const Hooks& hooks)
      : context_(context),
        model_(model),
        tokenizer_(tokenizer),
        options_(options),
        requests_(requests),
        hooks_(hooks) {}

  RunResult operator()();

 private:
  void check_requests();
  void plan();
  void copy_pages(const std::vector<PageCopy>& copies);
  void advance(const Step& step);
  void take(size_t request, Token token, size_t row);

  const Context& context_;
  const Model& model_;
  const Tokenizer& tokenizer_;
  const EngineOptions& options_;
  std::span<const Request> requests_;
  const Hooks& hooks_;

  int64_t longest_ = 0;  // tokens of one sequence
  int64_t pages_ = 0;
  std::optional<KvCache> cache_;
  std::optional<Scheduler> scheduler_;
  std::optional<Graph> prefill_, decode_;  // decode_: one row per sequence
  std::optional<Sampler> sampler_;
  RunResult result_;
};

void Run::check_requests() {
  const int64_t context = model_.config().context;
  int64_t total = 0, largest = 0;
  for (size_t i = 0; i < requests_.size(); ++i) {
    const Request& r = requests_[i];
    const auto prompt = static_cast<int64_t>(r.prompt.size());
    const std::string name = "prompt " + std::to_string(i + 1);
    if (prompt == 0) throw Error(name + " is empty");
    if (r.max_new_tokens < 1) throw Error(name + ": at least one new token must be asked for");
    if (prompt > context) {
      throw Error(name + " has " + std::to_string(prompt) + " tokens, the model's context is " +
                  std::to_string(context));
    }
    for (const Token token : r.prompt) tokenizer_.bytes(token);  // an id outside the vocabulary: Error
    // The last token drawn is never fed back, so it needs no place.
    const int64_t tokens = std::min(context, prompt + std::max<int64_t>(r.max_new_tokens - 1, 0));
    longest_ = std::max(longest_, tokens);
    largest = std::max(largest, pages_for(tokens, options_.page_size));
    total += pages_for(tokens, options_.page_size);
    result_.stats.prompt_tokens += prompt;
  }
  const int64_t limit = pages_for(EngineOptions::kDefaultCacheTokens, options_.page_size);
  // One page more: the writer of a partly shared page may hold the copy and the original for a moment.
  const auto spare = static_cast<int64_t>(requests_.size());
  pages_ = options_.cache_tokens > 0 ? pages_for(options_.cache_tokens, options_.page_size)
                                     : std::max(largest, std::min(total + spare, limit));
  if (largest > pages_) {
    throw Error("the KV cache of " + std::to_string(pages_ * options_.page_size) +
                " tokens is too small: one prompt with " + "its answer takes " + std::to_string(longest_));
  }
}

void Run::plan() {
  const ModelConfig& c = model_.config();
  if (options_.kv.has_given_scales()) {
    throw Error("KV format " + options_.kv.name() +
                " needs scales that were measured before, which `fovea perplexity` does; " + "allowed are " +
                kv_format_names(false));
  }
  cache_.emplace(KvCache::Shape{.format = options_.kv,
                                .layers = c.layers,
                                .kv_heads = c.kv_heads,
                                .d_k = c.d_k,
                                .d_v = c.d_v,
                                .page_size = options_.page_size,
                                .pages = pages_});
  const auto sequences = std::min<int64_t>(options_.max_sequences, static_cast<int64_t>(requests_.size()));
  const int64_t chunk = std::min(options_.chunk, result_.stats.prompt_tokens);
  scheduler_.emplace(SchedulerOptions{.page_size = options_.page_size,
                                      .pages = pages_,
                                      .chunk = chunk,
                                      .max_sequences = sequences,
                                      .share_prefixes = options_.share_prefixes});
  for (const Request& r : requests_) {
    const auto prompt = static_cast<int64_t>(r.prompt.size());
    scheduler_->add(r.prompt, std::min(c.context, prompt + std::max<int64_t>(r.max_new_tokens - 1, 0)));
  }
  prefill_.emplace(context_, model_, *cache_,
                   GraphLimits{.tokens = chunk + sequences,
                               .sequences = sequences,
                               .q_len = chunk,
                               .kv_len = longest_,
                               .invariant = options_.invariant});
  decode_.emplace(context_, model_, *cache_,
                  GraphLimits{.tokens = sequences,
                              .sequences = sequences,
                              .q_len = 1,
                              .kv_len = longest_,
                              .invariant = options_.invariant});
  std::vector<Sampling> samplings;
  for (const Request& r : requests_) samplings.push_back(r.sampling);
  sampler_.emplace(context_, sequences, c.vocab, samplings);
}

// Both directions of sharing end here: whoever writes to a page that others hold gets a copy first, in every layer.
void Run::copy_pages(const std::vector<PageCopy>& copies) {
  if (copies.empty()) return;
  std::vector<int64_t> pairs;
  for (const PageCopy& copy : copies) pairs.insert(pairs.end(), {copy.src, copy.dst});
  for (int64_t layer = 0; layer < model_.config().layers; ++layer) {
    const Kv kv = cache_->layer(layer);
    kv_copy(context_,
            {.src = &kv, .dst = &kv, .copies = tensor(pairs.data(), {static_cast<int64_t>(copies.size()), 2})});
  }
  result_.stats.copied_pages += static_cast<int64_t>(copies.size());
}

void Run::take(size_t request, Token token, size_t row) {
  Answer& answer = result_.answers[request];
  const Request& r = requests_[request];
  if (token < 0) throw Error("the model's logits are not numbers");
  const auto finish = [&](Finish how) {
    answer.finish = how;
    scheduler_->finish(request);
    if (hooks_.on_finish) hooks_.on_finish(request, answer);
  };
  if (r.stops_at_end && tokenizer_.is_end(token)) return finish(Finish::kEnd);
  answer.tokens.push_back(token);
  if (r.sampling.logprobs > 0) answer.logprobs.push_back(sampler_->logprobs(row, r.sampling.logprobs));
  ++result_.stats.generated_tokens;
  if (hooks_.on_token) hooks_.on_token(request, token);
  if (static_cast<int64_t>(answer.tokens.size()) >= r.max_new_tokens) return finish(Finish::kLength);
  if (scheduler_->length(request) >= model_.config().context) return finish(Finish::kContext);
  scheduler_->push(request, token);
}

void Run::advance(const Step& step) {
  const auto start = std::chrono::steady_clock::now();
  copy_pages(step.copies);
  Graph& graph = step.prompt_tokens > 0 ? *prefill_ : *decode_;
  const std::span<const float> logits = graph.forward(step.batch);
  scheduler_->commit(step);
  const size_t rows = step.logit_owners.size();
  const auto vocab = static_cast<size_t>(model_.config().vocab);
  std::span<const int32_t> drawn;
  if (rows > 0) {
    for (size_t i = 0; i < rows; ++i) {
      const size_t request = step.logit_owners[i];
      const Request& r = requests_[request];
      sampler_->set(i, r.sampling, scheduler_->tokens(request), static_cast<int64_t>(r.prompt.size()));
      if (hooks_.on_logits) hooks_.on_logits(request, logits.subspan(i * vocab, vocab));
    }
    drawn = sampler_->draw(logits, static_cast<int64_t>(rows));
  }
  RunStats& stats = result_.stats;
  (step.prompt_tokens > 0 ? stats.prefill_seconds : stats.decode_seconds) += seconds_since(start);
  stats.prefill_tokens += step.prompt_tokens;
  if (step.prompt_tokens == 0) stats.decode_tokens += static_cast<int64_t>(rows);
  for (size_t i = 0; i < rows; ++i) take(step.logit_owners[i], drawn[i], i);
}

RunResult Run::operator()() {
  result_.answers.resize(requests_.size());
  if (requests_.empty()) return std::move(result_);
  check_requests();
  plan();
  RunStats& stats = result_.stats;
  int64_t read = 0;
  while (!scheduler_->finished() && !(hooks_.interrupt != nullptr && hooks_.interrupt->load())) {
    const Step step = scheduler_->next();
    advance(step);
    read += step.prompt_tokens;
    if (hooks_.on_prompt && step.prompt_tokens > 0) hooks_.on_prompt(read, stats.prompt_tokens);
  }
  for (size_t i = 0; i < requests_.size(); ++i) {
    result_.answers[i].shared_tokens = scheduler_->shared_tokens(i);
    stats.shared_tokens += scheduler_->shared_tokens(i);
  }
  stats.weights = model_.weights();
  stats.cache_bytes = cache_->bytes();
  stats.cache_tokens = pages_ * options_.page_size;
  stats.cache_bytes_per_token = cache_->bytes_per_token();
  prefill_->add_kernels(&stats.prefill_kernels);
  decode_->add_kernels(&stats.decode_kernels);
  for (Graph::Kernels* kernels : {&stats.prefill_kernels, &stats.decode_kernels}) {
    ++(*kernels)[sampler_->plan().explain()];
  }
  return std::move(result_);
}

}  // namespace

std::string_view name_of(Finish finish) {
  switch (finish) {
    case Finish::kEnd:
      return "end";
    case Finish::kLength:
      return "length";
    case Finish::kContext:
      return "context";
    case Finish::kInterrupted:
      return "interrupted";
  }
  return "?";
}

Engine::Engine(const Context& context, const Model& model, const Tokenizer& tokenizer, const EngineOptions& options)
    : context_(context), model_(model), tokenizer_(tokenizer), options_(options) {
  if (options.page_size < 1) throw Error("the page size must be at least 1 token");
  if (options.chunk < 1) throw Error("the chunk must be at least 1 token");
  if (options.max_sequences < 1) throw Error("the batch must have at least 1 sequence");
  if (tokenizer.vocab_size() != model.config().vocab) throw Error("the tokenizer is not that of the model");
}

RunResult Engine::run(std::span<const Request> requests, const Hooks& hooks) {
  return Run(context_, model_, tokenizer_, options_, requests, hooks)();
}

}  // namespace fovea::app
