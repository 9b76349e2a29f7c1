// SPDX-License-Identifier: Apache-2.0
// The book-keeping behind fovea_page_pool: counts of holders per page, a stack of free pages, a page table per
// sequence.
//
// Only the last page of a sequence is ever written, and only past its length. So a page may be shared by any number of
// sequences until one of them grows inside it; that one then gets a copy of its own. Every function either succeeds or
// changes nothing. Cost: append and truncate are linear in the pages and tokens they add or remove, fork, close and
// drop_before in the pages they touch, all else is constant.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "fovea/page_pool.h"

struct fovea_page_pool {
 public:
  static fovea::Status check(int64_t pages, int32_t page_size);
  fovea_page_pool(int64_t pages, int32_t page_size) : capacity_(pages), page_size_(page_size) {}

  int64_t open();
  fovea::Status close(int64_t sequence);
  fovea::Status fork(int64_t sequence, int64_t tokens, int64_t& child);
  fovea::Status append(int64_t sequence, int64_t tokens, int64_t* slots, fovea_page_copy& copy);
  fovea::Status truncate(int64_t sequence, int64_t tokens);
  fovea::Status drop_before(int64_t sequence, int64_t token);
  fovea::Status table(int64_t sequence, int64_t* tokens, int64_t* pages, int64_t size, int64_t* count) const;
  fovea_page_pool_stats stats() const;

 private:
  struct Sequence {
    std::vector<int64_t> pages;  // page ids in order of position; -1 = dropped, a prefix of the table
    int64_t tokens = 0;
    int64_t dropped = 0;  // pages
  };

  fovea::Status find(int64_t sequence, const Sequence*& out) const;
  fovea::Status find(int64_t sequence, Sequence*& out);
  int64_t free_pages() const { return capacity_ - touched_ + static_cast<int64_t>(free_.size()); }
  int64_t pages_of(int64_t tokens) const { return tokens / page_size_ + (tokens % page_size_ != 0); }
  fovea::Status check_cut(const Sequence& s, int64_t tokens) const;
  int64_t insert(Sequence sequence);
  void make_room(int64_t pages);
  int64_t take();
  void share(int64_t page);
  void release(int64_t page);

  int64_t capacity_;
  int32_t page_size_;
  int64_t touched_ = 0;           // pages [touched_, capacity_) were never handed out
  int64_t shared_ = 0;            // pages with more than one holder
  int64_t next_sequence_ = 0;     // ids are never reused
  std::vector<int64_t> holders_;  // [touched_]
  std::vector<int64_t> free_;     // stack; its capacity is at least touched_, so that release never allocates
  std::unordered_map<int64_t, Sequence> sequences_;
};
