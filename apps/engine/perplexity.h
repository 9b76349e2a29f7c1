// SPDX-License-Identifier: Apache-2.0
// Perplexity of a text under a model, with the KV cache in several formats at once: all formats compute the same tokens
// in turn, and their logits are compared before the next tokens, so that the logits of one step are all that is kept.
#pragma once

#include <atomic>
#include <cstdint>
#include <fovea/fovea.hpp>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kv_cache.h"
#include "model.h"
#include "token_scores.h"
#include "tokenizer.h"

namespace fovea::app {

struct PerplexityOptions {
  std::vector<KvFormat> formats;  // the others are compared with the first
  int64_t ctx = 512;              // tokens of a chunk; at most those of the text
  int64_t stride = 0;             // tokens from chunk to chunk, and scored at the end of each; 0: see Chunks
  int64_t chunks = 0;             // at most; 0: all
  int64_t step = 128;             // tokens computed at once
  int32_t page_size = 16;
};

// The chunks of a text, each computed with an empty cache; row r of a chunk predicts its token r + 1. Without a stride
// chunks lie side by side and rows from the middle on are scored, with one the last `stride` rows that have a token to
// predict. This is what llama-perplexity does.
struct Chunks {
  int64_t tokens = 0;  // of a chunk
  int64_t stride = 0;  // from the start of one to the start of the next
  int64_t first = 0;   // row that is scored first; the last one is tokens - 2
  int64_t count = 0;
};
// An impossible wish (a text of less than 2 tokens, a ctx that the model does not have): Error.
Chunks chunks_of(int64_t text_tokens, int64_t model_context, const PerplexityOptions& options);

// Tokens of a text: control tokens in it are plain characters; BOS in front where the model has it.
std::vector<Token> perplexity_tokens(const Tokenizer& tokenizer, const std::string& text);

struct FormatPerplexity {
  KvFormat format;
  ScoreSummary scores;
  int64_t tokens = 0;  // computed, and the time of it without that of the scores
  double seconds = 0;
  int64_t cache_bytes = 0;
  double cache_bytes_per_token = 0;
};

struct PerplexityResult {
  std::vector<FormatPerplexity> formats;
  Chunks chunks;
  int64_t text_tokens = 0;
  int64_t done_tokens = 0;                                         // fewer than all where it was interrupted
  int64_t activation_bytes = 0, logit_bytes = 0, score_bytes = 0;  // of all formats together
};

struct PerplexityHooks {
  // After each step: tokens computed, those there will be, the perplexity of each format so far.
  std::function<void(int64_t done, int64_t total, std::span<const double> perplexities)> on_step;
  const std::atomic<bool>* interrupt = nullptr;  // looked at before each step
};

PerplexityResult measure_perplexity(const Context& context, const Model& model, const Tokenizer& tokenizer,
                                    std::span<const Token> text, const PerplexityOptions& options,
                                    const PerplexityHooks& hooks = {});

}  // namespace fovea::app
