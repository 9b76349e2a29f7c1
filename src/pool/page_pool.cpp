// SPDX-License-Identifier: Apache-2.0
#include "pool/page_pool.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

using fovea::invalid_value;
using fovea::Status;

namespace {

Status check_within(const char* name, int64_t token, int64_t length) {
  if (token >= 0 && token <= length) return {};
  return invalid_value(name, token, "must be in [0, " + std::to_string(length) + "] (length of the sequence)");
}

}  // namespace

Status fovea_page_pool::check(int64_t pages, int32_t page_size) {
  if (page_size < 1) return invalid_value("page_size", page_size, "must be at least 1");
  if (pages < 0) return invalid_value("pages", pages, "must not be negative");
  const int64_t most = std::numeric_limits<int64_t>::max() / page_size;
  if (pages > most)
    return invalid_value("pages", pages, "must be at most " + std::to_string(most) + ": slots are 64-bit");
  return {};
}

Status fovea_page_pool::find(int64_t sequence, const Sequence*& out) const {
  const auto found = sequences_.find(sequence);
  if (found == sequences_.end()) return invalid_value("sequence", sequence, "is not open in this pool");
  out = &found->second;
  return {};
}

Status fovea_page_pool::find(int64_t sequence, Sequence*& out) {
  const Sequence* s = nullptr;
  FOVEA_TRY(std::as_const(*this).find(sequence, s));
  out = const_cast<Sequence*>(s);
  return {};
}

int64_t fovea_page_pool::insert(Sequence sequence) {
  sequences_.emplace(next_sequence_, std::move(sequence));
  return next_sequence_++;
}

// Memory for handing out this many pages, so that what follows cannot fail.
void fovea_page_pool::make_room(int64_t pages) {
  const int64_t fresh = std::max<int64_t>(0, pages - static_cast<int64_t>(free_.size()));
  const size_t most = static_cast<size_t>(touched_ + fresh);
  if (most <= free_.capacity() && most <= holders_.capacity()) return;
  const size_t grown = std::max(most, holders_.capacity() + holders_.capacity() / 2);
  holders_.reserve(grown);
  free_.reserve(grown);
}

int64_t fovea_page_pool::take() {
  if (free_.empty()) {
    holders_.push_back(1);
    return touched_++;
  }
  const int64_t page = free_.back();
  free_.pop_back();
  holders_[static_cast<size_t>(page)] = 1;
  return page;
}

void fovea_page_pool::share(int64_t page) {
  if (page < 0) return;
  if (++holders_[static_cast<size_t>(page)] == 2) ++shared_;
}

void fovea_page_pool::release(int64_t page) {
  if (page < 0) return;
  const int64_t left = --holders_[static_cast<size_t>(page)];
  if (left == 1) --shared_;
  if (left == 0) free_.push_back(page);
}

int64_t fovea_page_pool::open() {
  return insert({});
}

Status fovea_page_pool::close(int64_t sequence) {
  Sequence* s = nullptr;
  FOVEA_TRY(find(sequence, s));
  for (auto page = s->pages.rbegin(); page != s->pages.rend(); ++page) release(*page);
  sequences_.erase(sequence);
  return {};
}

// May a sequence, or a fork of it, end after `tokens` tokens? Not inside a dropped page: the next token would have
// nowhere to go.
Status fovea_page_pool::check_cut(const Sequence& s, int64_t tokens) const {
  FOVEA_TRY(check_within("tokens", tokens, s.tokens));
  if (tokens % page_size_ == 0 || tokens / page_size_ >= s.dropped) return {};
  return invalid_value("tokens", tokens, "ends inside a page that was dropped");
}

Status fovea_page_pool::fork(int64_t sequence, int64_t tokens, int64_t& child) {
  const Sequence* s = nullptr;
  FOVEA_TRY(find(sequence, s));
  FOVEA_TRY(check_cut(*s, tokens));
  const int64_t count = pages_of(tokens);
  Sequence copy{
      .pages = {s->pages.begin(), s->pages.begin() + count}, .tokens = tokens, .dropped = std::min(s->dropped, count)};
  child = insert(std::move(copy));
  for (int64_t page : sequences_.find(child)->second.pages) share(page);
  return {};
}

Status fovea_page_pool::append(int64_t sequence, int64_t tokens, int64_t* slots, fovea_page_copy& copy) {
  Sequence* s = nullptr;
  FOVEA_TRY(find(sequence, s));
  if (tokens < 0) return invalid_value("tokens", tokens, "must not be negative");
  int64_t length = 0;
  if (__builtin_add_overflow(s->tokens, tokens, &length)) {
    return invalid_value("tokens", tokens, "the length of the sequence would not fit 64 bits");
  }
  copy = {};
  if (tokens == 0) return {};
  const bool inside = s->tokens % page_size_ != 0;
  const bool copies = inside && holders_[static_cast<size_t>(s->pages.back())] > 1;
  const int64_t grow = pages_of(length) - static_cast<int64_t>(s->pages.size());
  if (grow + copies > free_pages()) {
    return {FOVEA_OUT_OF_MEMORY, "tokens is " + std::to_string(tokens) + ": needs " + std::to_string(grow + copies) +
                                     " pages, the pool has " + std::to_string(free_pages()) + " free"};
  }
  make_room(grow + copies);
  const size_t entries = s->pages.size() + static_cast<size_t>(grow);
  if (entries > s->pages.capacity()) s->pages.reserve(std::max(entries, 2 * s->pages.capacity()));
  if (copies) {
    copy = {.src = s->pages.back(), .dst = take()};
    release(copy.src);
    s->pages.back() = copy.dst;
  }
  for (int64_t i = 0; i < grow; ++i) s->pages.push_back(take());
  for (int64_t t = s->tokens; slots != nullptr && t < length; ++t) {
    *slots++ = s->pages[static_cast<size_t>(t / page_size_)] * page_size_ + t % page_size_;
  }
  s->tokens = length;
  return {};
}

Status fovea_page_pool::truncate(int64_t sequence, int64_t tokens) {
  Sequence* s = nullptr;
  FOVEA_TRY(find(sequence, s));
  FOVEA_TRY(check_cut(*s, tokens));
  const int64_t count = pages_of(tokens);
  while (static_cast<int64_t>(s->pages.size()) > count) {
    release(s->pages.back());
    s->pages.pop_back();
  }
  s->tokens = tokens;
  s->dropped = std::min(s->dropped, count);
  return {};
}

Status fovea_page_pool::drop_before(int64_t sequence, int64_t token) {
  Sequence* s = nullptr;
  FOVEA_TRY(find(sequence, s));
  FOVEA_TRY(check_within("token", token, s->tokens));
  for (; s->dropped < token / page_size_; ++s->dropped) {
    int64_t& page = s->pages[static_cast<size_t>(s->dropped)];
    release(page);
    page = -1;
  }
  return {};
}

Status fovea_page_pool::table(int64_t sequence, int64_t* tokens, int64_t* pages, int64_t size, int64_t* count) const {
  const Sequence* s = nullptr;
  FOVEA_TRY(find(sequence, s));
  if (size < 0) return invalid_value("size", size, "must not be negative");
  const int64_t entries = static_cast<int64_t>(s->pages.size());
  if (tokens != nullptr) *tokens = s->tokens;
  if (pages != nullptr) std::copy_n(s->pages.begin(), std::min(entries, size), pages);
  if (count != nullptr) *count = entries;
  return {};
}

fovea_page_pool_stats fovea_page_pool::stats() const {
  return {.pages = capacity_,
          .free_pages = free_pages(),
          .shared_pages = shared_,
          .sequences = static_cast<int64_t>(sequences_.size())};
}
