// SPDX-License-Identifier: Apache-2.0
// Answers many prompts at once with one model and one paged cache. Each step carries one row for every sequence that is
// generating and up to `chunk` rows of prompts that are still being read, as one ragged batch. Prompts that begin alike
// share the pages of their common beginning.
#pragma once

#include <atomic>
#include <cstdint>
#include <fovea/fovea.hpp>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "graph.h"
#include "kv_cache.h"
#include "model.h"
#include "sampler.h"
#include "tokenizer.h"

namespace fovea::app {

struct EngineOptions {
  // Of the cache. Scales that it needs are computed from what is stored: formats with given ones are an Error.
  KvFormat kv = {};
  int32_t page_size = 16;      // tokens
  int64_t chunk = 256;         // prompt tokens per step
  int64_t max_sequences = 32;  // in the batch at once; the others wait
  int64_t cache_tokens = 0;    // capacity; 0: enough for every request at once, at most kDefaultCacheTokens
  bool share_prefixes = true;
  bool invariant = false;  // see GraphLimits
  static constexpr int64_t kDefaultCacheTokens = 1 << 16;
};

struct Request {
  std::vector<Token> prompt;
  int64_t max_new_tokens = 0;
  Sampling sampling;
  bool stops_at_end = true;  // false: an end token is a token like the others
};

enum class Finish { kEnd, kLength, kContext, kInterrupted };  // end token, max_new_tokens, model's context, interrupt
std::string_view name_of(Finish finish);

struct Answer {
  std::vector<Token> tokens;            // without the end token that ended it
  std::vector<TokenLogprobs> logprobs;  // one per token where they were asked for
  Finish finish = Finish::kInterrupted;
  int64_t shared_tokens = 0;  // of the prompt, taken from another request's pages
};

struct Hooks {
  std::function<void(size_t request, Token token)> on_token;
  std::function<void(size_t request, const Answer& answer)> on_finish;
  std::function<void(size_t request, std::span<const float> logits)> on_logits;  // before a token is drawn from them
  std::function<void(int64_t done, int64_t total)> on_prompt;                    // prompt tokens read so far
  const std::atomic<bool>* interrupt = nullptr;                                  // looked at before each step
};

struct RunStats {
  int64_t prompt_tokens = 0, shared_tokens = 0, generated_tokens = 0;
  int64_t prefill_tokens = 0;  // prompt tokens computed, and the time of the steps that held any
  double prefill_seconds = 0;
  int64_t decode_tokens = 0;  // tokens of the steps that held no prompt tokens, and their time
  double decode_seconds = 0;
  int64_t copied_pages = 0;  // shared pages that were written to
  int64_t cache_bytes = 0;
  int64_t cache_tokens = 0;
  double cache_bytes_per_token = 0;
  std::vector<WeightUse> weights;
  Graph::Kernels prefill_kernels, decode_kernels;
};

struct RunResult {
  std::vector<Answer> answers;  // one per request
  RunStats stats;
};

class Engine {
 public:
  Engine(const Context& context, const Model& model, const Tokenizer& tokenizer, const EngineOptions& options);

  // An impossible request (empty prompt, longer than the context or the cache): Error, before anything is computed.
  RunResult run(std::span<const Request> requests, const Hooks& hooks = {});

 private:
  const Context& context_;
  const Model& model_;
  const Tokenizer& tokenizer_;
  EngineOptions options_;
};

}  // namespace fovea::app
