// SPDX-License-Identifier: Apache-2.0
// The scheduler against a cache of token ids: a page holds the tokens that were written to its slots. Whatever is
// shared, copied or waited for, a sequence must read its own tokens.
#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "engine/error.h"

namespace fovea::app {
namespace {

class Simulation {
 public:
  Simulation(const SchedulerOptions& options, std::vector<std::vector<Token>> prompts, std::vector<int64_t> new_tokens)
      : options_(options), scheduler_(options), prompts_(std::move(prompts)), new_tokens_(std::move(new_tokens)) {
    for (size_t i = 0; i < prompts_.size(); ++i) {
      scheduler_.add(prompts_[i], static_cast<int64_t>(prompts_[i].size()) + new_tokens_[i] - 1);
    }
    texts_ = prompts_;
    left_ = new_tokens_;
  }

  void run() {
    while (!scheduler_.finished()) {
      ASSERT_LT(++steps, 100000);
      const Step step = scheduler_.next();
      ASSERT_FALSE(step.requests.empty());
      check(step);
      scheduler_.commit(step);
      for (const size_t request : step.logit_owners) {
        const auto token = static_cast<Token>(1000 + request * 100 + static_cast<size_t>(left_[request]));
        texts_[request].push_back(token);
        if (--left_[request] == 0) {
          scheduler_.finish(request);
        } else {
          scheduler_.push(request, token);
        }
      }
    }
    for (const int64_t left : left_) EXPECT_EQ(left, 0);
  }

  int64_t steps = 0, computed = 0, copies = 0, largest_batch = 0, largest_prompt_rows = 0;
  Scheduler& scheduler() { return scheduler_; }

 private:
  void check(const Step& step) {
    const Batch& b = step.batch;
    for (const PageCopy& copy : step.copies) {
      for (int64_t i = 0; i < options_.page_size; ++i) {
        cache_[copy.dst * options_.page_size + i] = cache_[copy.src * options_.page_size + i];
      }
      ++copies;
    }
    std::map<int64_t, int> writers;
    for (size_t i = 0; i < b.ids.size(); ++i) {
      EXPECT_EQ(++writers[b.slots[i]], 1) << "two rows write one slot";
      cache_[b.slots[i]] = b.ids[i];
    }
    ASSERT_EQ(b.cu_seqlens_q.size(), step.requests.size() + 1);
    for (size_t s = 0; s < step.requests.size(); ++s) {
      const std::vector<Token>& text = texts_[step.requests[s]];
      const int64_t length = b.kv_lens[s];
      ASSERT_LE(length, static_cast<int64_t>(text.size()));
      for (int64_t t = 0; t < length; ++t) {
        const int64_t page = b.page_tables[s][static_cast<size_t>(t / options_.page_size)];
        ASSERT_EQ(cache_[page * options_.page_size + t % options_.page_size], text[static_cast<size_t>(t)])
            << "request " << step.requests[s] << " token " << t;
      }
      const int32_t first = b.cu_seqlens_q[s], last = b.cu_seqlens_q[s + 1];
      EXPECT_EQ(b.positions[static_cast<size_t>(last - 1)], length - 1);
      EXPECT_EQ(b.positions[static_cast<size_t>(first)], length - (last - first));
    }
    computed += static_cast<int64_t>(b.ids.size());
    largest_batch = std::max(largest_batch, static_cast<int64_t>(step.requests.size()));
    largest_prompt_rows = std::max(largest_prompt_rows, step.prompt_tokens);
  }

  SchedulerOptions options_;
  Scheduler scheduler_;
  std::vector<std::vector<Token>> prompts_, texts_;
  std::vector<int64_t> new_tokens_, left_;
  std::map<int64_t, Token> cache_;  // by slot
};

std::vector<Token> sequence(Token first, int64_t count) {
  std::vector<Token> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(first + static_cast<Token>(i));
  return out;
}

std::vector<Token> joined(std::vector<Token> a, const std::vector<Token>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(Scheduler, ChunksAPromptAndThenDecodes) {
  Simulation s({.page_size = 4, .pages = 10, .chunk = 5, .max_sequences = 4}, {sequence(0, 13)}, {3});
  s.run();
  EXPECT_EQ(s.steps, 3 + 2);  // 5 + 5 + 3 rows, the third gives the first token
  EXPECT_EQ(s.largest_prompt_rows, 5);
  EXPECT_EQ(s.computed, 13 + 2);
}

TEST(Scheduler, SharesACommonBeginningAndCopiesThePageThatDiffers) {
  const std::vector<Token> common = sequence(0, 10);
  Simulation s({.page_size = 4, .pages = 40, .chunk = 100, .max_sequences = 8},
               {joined(common, {100, 101}), joined(common, {200}), joined(common, {300, 301, 302})}, {4, 4, 4});
  s.run();
  EXPECT_EQ(s.scheduler().shared_tokens(0), 0);
  EXPECT_EQ(s.scheduler().shared_tokens(1), 10);
  EXPECT_EQ(s.scheduler().shared_tokens(2), 10);
  EXPECT_EQ(s.computed, 12 + 1 + 3 + 3 * 3);
  EXPECT_GE(s.copies, 2);
}

TEST(Scheduler, EqualPromptsStillComputeTheirLastToken) {
  Simulation s({.page_size = 4, .pages = 40, .chunk = 100, .max_sequences = 8}, {sequence(0, 8), sequence(0, 8)},
               {2, 2});
  s.run();
  EXPECT_EQ(s.scheduler().shared_tokens(1), 7);
}

TEST(Scheduler, SharingCanBeTurnedOff) {
  Simulation s({.page_size = 4, .pages = 40, .chunk = 100, .max_sequences = 8, .share_prefixes = false},
               {sequence(0, 8), sequence(0, 8)}, {1, 1});
  s.run();
  EXPECT_EQ(s.scheduler().shared_tokens(1), 0);
  EXPECT_EQ(s.copies, 0);
}

TEST(Scheduler, RequestsWaitForPagesAndForPlacesInTheBatch) {
  const std::vector<std::vector<Token>> prompts = {sequence(0, 8), sequence(50, 8), sequence(100, 8), sequence(150, 8)};
  Simulation tight({.page_size = 4, .pages = 4, .chunk = 100, .max_sequences = 8}, prompts, {5, 5, 5, 5});
  tight.run();
  EXPECT_EQ(tight.largest_batch, 1);
  Simulation wide({.page_size = 4, .pages = 100, .chunk = 100, .max_sequences = 2}, prompts, {5, 5, 5, 5});
  wide.run();
  EXPECT_EQ(wide.largest_batch, 2);
}

// Its prefix is kept for a request that then does not fit beside it: sharing is given up, not the request.
TEST(Scheduler, AKeptPrefixNeverBlocksTheCache) {
  const std::vector<Token> common = sequence(0, 7);
  Simulation s({.page_size = 4, .pages = 3, .chunk = 100, .max_sequences = 8},
               {joined(common, {100}), joined(common, {200, 201, 202, 203})}, {1, 2});
  s.run();
}

TEST(Scheduler, ACacheThatFitsNoRequestIsAnError) {
  Scheduler s({.page_size = 4, .pages = 1});
  s.add(sequence(0, 8), 8);
  EXPECT_THROW(s.next(), Error);
}

TEST(Scheduler, RandomRequestsAlwaysReadTheirOwnTokens) {
  std::mt19937 rng(11);
  for (int round = 0; round < 300; ++round) {
    SchedulerOptions options{.page_size = static_cast<int32_t>(1 + rng() % 5),
                             .chunk = static_cast<int64_t>(1 + rng() % 20),
                             .max_sequences = static_cast<int64_t>(1 + rng() % 6)};
    std::vector<std::vector<Token>> prompts;
    std::vector<int64_t> new_tokens;
    int64_t largest = 0;
    for (size_t i = 0; i < 1 + rng() % 8; ++i) {
      std::vector<Token> prompt;
      if (i > 0 && rng() % 3 != 0) {
        const std::vector<Token>& other = prompts[rng() % i];
        prompt.assign(other.begin(), other.begin() + static_cast<int64_t>(rng() % (other.size() + 1)));
      }
      prompt = joined(prompt, sequence(static_cast<Token>(rng() % 3), static_cast<int64_t>(1 + rng() % 12)));
      new_tokens.push_back(static_cast<int64_t>(1 + rng() % 6));
      const int64_t tokens = static_cast<int64_t>(prompt.size()) + new_tokens.back() - 1;
      largest = std::max(largest, (tokens + options.page_size - 1) / options.page_size);
      prompts.push_back(prompt);
    }
    options.pages = largest + static_cast<int64_t>(rng() % 20);
    Simulation s(options, prompts, new_tokens);
    s.run();
    if (::testing::Test::HasFailure()) FAIL() << "round " << round;
  }
}

}  // namespace
}  // namespace fovea::app
