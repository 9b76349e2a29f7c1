// SPDX-License-Identifier: Apache-2.0
// Which tokens of which request a step computes, and where their K and V go. Knows tokens and pages, no model.
#pragma once

#include <cstdint>
#include <fovea/fovea.hpp>
#include <span>
#include <vector>

#include "graph.h"
#include "tokenizer.h"

namespace fovea::app {

struct SchedulerOptions {
  int32_t page_size = 16;
  int64_t pages = 0;
  int64_t chunk = 256;
  int64_t max_sequences = 32;
  bool share_prefixes = true;
};

// A step: the batch, and for each of its sequences the request; page copies to make before it runs.
struct Step {
  Batch batch;
  std::vector<size_t> requests;      // one per sequence of the batch
  std::vector<size_t> logit_owners;  // one per logit row: the request
  std::vector<PageCopy> copies;
  int64_t prompt_tokens = 0;
};

class Scheduler {
 public:
  explicit Scheduler(const SchedulerOptions& options) : options_(options), pool_(options.pages, options.page_size) {}

  // final_tokens is the most tokens the sequence can have in the cache.
  void add(std::span<const Token> prompt, int64_t final_tokens);

  bool finished() const { return unfinished_ == 0; }
  Step next();                             // never empty while not finished
  void commit(const Step& step);           // the step has run
  void push(size_t request, Token token);  // continues a request
  void finish(size_t request);             // ends it

  int64_t length(size_t request) const { return static_cast<int64_t>(sequences_[request].tokens.size()); }
  std::span<const Token> tokens(size_t request) const { return sequences_[request].tokens; }
  int64_t shared_tokens(size_t request) const { return sequences_[request].shared; }

 private:
  enum class State { kWaiting, kActive, kHolding, kDone };  // holding: finished, kept for those who will share it
  struct Sequence {
    std::vector<Token> tokens;
    int64_t prompt = 0;  // tokens of it
    int64_t final_tokens = 0;
    int64_t computed = 0;      // tokens whose K and V are in the cache
    int64_t id = -1;           // in the pool
    int64_t parent = -1;       // request whose beginning this one shares
    int64_t shared = 0;        // tokens shared with it
    bool copies_page = false;  // the first append may copy a partly shared page
    State state = State::kWaiting;
  };

  void find_parent(size_t request);
  void admit();
  bool start(size_t request);
  int64_t pages_for(int64_t tokens) const { return (tokens + options_.page_size - 1) / options_.page_size; }
  int64_t pages_wanted(const Sequence& s) const;
  int64_t pages_available() const;
  bool has_waiting_child(size_t request) const;
  void release_holders();
  void add_rows(size_t request, int64_t rows, Step* step);

  SchedulerOptions options_;
  PagePool pool_;
  std::vector<Sequence> sequences_;  // one per request, in order
  int64_t active_ = 0;
  int64_t unfinished_ = 0;
};

}  // namespace fovea::app
