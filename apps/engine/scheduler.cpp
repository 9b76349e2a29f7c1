// SPDX-License-Identifier: Apache-2.0
#include "scheduler.h"

#include <algorithm>

#include "error.h"

namespace fovea::app {

void Scheduler::add(std::span<const Token> prompt, int64_t final_tokens) {
  Sequence s;
  s.tokens.assign(prompt.begin(), prompt.end());
  s.prompt = static_cast<int64_t>(prompt.size());
  s.final_tokens = final_tokens;
  sequences_.push_back(std::move(s));
  ++unfinished_;
  if (options_.share_prefixes) find_parent(sequences_.size() - 1);
}

// The earlier request with the longest common beginning. At least a page must be common to be worth sharing, and the
// last token is always computed, because its logits are wanted.
void Scheduler::find_parent(size_t request) {
  Sequence& s = sequences_[request];
  for (size_t other = 0; other < request; ++other) {
    const std::vector<Token>& theirs = sequences_[other].tokens;
    const auto theirs_end = theirs.begin() + sequences_[other].prompt;
    const auto common = std::mismatch(s.tokens.begin(), s.tokens.end(), theirs.begin(), theirs_end).first;
    const int64_t shared = std::min<int64_t>(common - s.tokens.begin(), s.prompt - 1);
    if (shared < options_.page_size || shared <= s.shared) continue;
    s.parent = static_cast<int64_t>(other);
    s.shared = shared;
  }
}

// Pages the sequence may still take from the pool.
int64_t Scheduler::pages_wanted(const Sequence& s) const {
  const int64_t held = s.id < 0 ? 0 : pages_for(pool_.tokens(s.id));
  return pages_for(s.final_tokens) - held + (s.copies_page ? 1 : 0);
}

// Free pages that no active sequence will need: a sequence that was admitted never runs out of pages.
int64_t Scheduler::pages_available() const {
  int64_t pages = pool_.stats().free_pages;
  for (const Sequence& s : sequences_) {
    if (s.state == State::kActive) pages -= pages_wanted(s);
  }
  return pages;
}

// Opens the sequence, or forks its parent, if its pages are there.
bool Scheduler::start(size_t request) {
  Sequence& s = sequences_[request];
  const bool partial = s.shared % options_.page_size != 0;
  const int64_t wanted = pages_for(s.final_tokens) - pages_for(s.shared) + (partial ? 1 : 0);
  if (wanted > pages_available()) return false;
  if (s.parent >= 0) {
    s.id = pool_.fork(sequences_[static_cast<size_t>(s.parent)].id, s.shared);
    s.computed = s.shared;
    s.copies_page = partial;
  } else {
    s.id = pool_.open();
  }
  s.state = State::kActive;
  ++active_;
  return true;
}

void Scheduler::admit() {
  for (size_t i = 0; i < sequences_.size() && active_ < options_.max_sequences; ++i) {
    Sequence& s = sequences_[i];
    if (s.state != State::kWaiting) continue;
    if (s.parent >= 0 && sequences_[static_cast<size_t>(s.parent)].computed < s.shared) continue;
    if (!start(i)) break;  // first come, first served
  }
  release_holders();
  if (active_ > 0) return;
  // Nothing runs, so only kept prefixes stand in the way: give up sharing for the first request that waits.
  for (size_t i = 0; i < sequences_.size(); ++i) {
    Sequence& s = sequences_[i];
    if (s.state != State::kWaiting) continue;
    s.parent = -1;
    s.shared = 0;
    release_holders();
    if (start(i)) return;
  }
  throw Error("the KV cache of " + std::to_string(options_.pages) + " pages is too small for any waiting request");
}

bool Scheduler::has_waiting_child(size_t request) const {
  return std::any_of(sequences_.begin(), sequences_.end(), [&](const Sequence& s) {
    return s.state == State::kWaiting && s.parent == static_cast<int64_t>(request);
  });
}

void Scheduler::release_holders() {
  for (size_t i = 0; i < sequences_.size(); ++i) {
    Sequence& s = sequences_[i];
    if (s.state != State::kHolding || has_waiting_child(i)) continue;
    pool_.close(s.id);
    s.state = State::kDone;
  }
}

void Scheduler::add_rows(size_t request, int64_t rows, Step* step) {
  Sequence& s = sequences_[request];
  Batch& batch = step->batch;
  const size_t first = batch.slots.size();
  batch.slots.resize(first + static_cast<size_t>(rows));
  const PageCopy copy = pool_.append(s.id, rows, batch.slots.data() + first);
  if (copy.src >= 0) step->copies.push_back(copy);
  s.copies_page = false;
  for (int64_t i = s.computed; i < s.computed + rows; ++i) {
    batch.ids.push_back(s.tokens[static_cast<size_t>(i)]);
    batch.positions.push_back(static_cast<int32_t>(i));
  }
  batch.cu_seqlens_q.push_back(static_cast<int32_t>(batch.ids.size()));
  batch.kv_lens.push_back(static_cast<int32_t>(s.computed + rows));
  batch.page_tables.push_back(pool_.pages(s.id));
  step->requests.push_back(request);
  if (s.computed + rows == static_cast<int64_t>(s.tokens.size())) {
    batch.logit_rows.push_back(static_cast<int64_t>(batch.ids.size()) - 1);
    step->logit_owners.push_back(request);
  }
}

Step Scheduler::next() {
  admit();
  Step step;
  int64_t budget = options_.chunk;
  for (size_t i = 0; i < sequences_.size(); ++i) {
    const Sequence& s = sequences_[i];
    if (s.state != State::kActive) continue;
    const int64_t unread = s.prompt - s.computed;
    const int64_t rows = unread > 0 ? std::min(unread, budget) : 1;
    if (rows == 0) continue;
    if (unread > 0) {
      budget -= rows;
      step.prompt_tokens += rows;
    }
    add_rows(i, rows, &step);
  }
  return step;
}

void Scheduler::commit(const Step& step) {
  for (size_t b = 0; b < step.requests.size(); ++b) {
    sequences_[step.requests[b]].computed = step.batch.kv_lens[b];
  }
}

void Scheduler::push(size_t request, Token token) {
  sequences_[request].tokens.push_back(token);
}

void Scheduler::finish(size_t request) {
  Sequence& s = sequences_[request];
  int64_t kept = 0;  // tokens that waiting requests will share
  for (const Sequence& other : sequences_) {
    if (other.state == State::kWaiting && other.parent == static_cast<int64_t>(request))
      kept = std::max(kept, other.shared);
  }
  pool_.truncate(s.id, kept);
  s.state = State::kHolding;
  --active_;
  --unfinished_;
  release_holders();
}

}  // namespace fovea::app
