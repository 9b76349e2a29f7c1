// SPDX-License-Identifier: Apache-2.0
// PagePool against a model that keeps, for every sequence, the content of every token, and a memory of slots that is
// really written and copied: whatever the pool hands out, each sequence must read back its own tokens.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "fovea/fovea.hpp"
#include "support/random.h"

namespace {

using fovea::PageCopy;
using fovea::PagePool;
using fovea::test::Rng;
using fovea::test::seed_note;
using fovea::test::test_rng;

struct Model {
  Model(int64_t capacity, int32_t tokens_per_page)
      : pages(capacity), page_size(tokens_per_page), pool(capacity, tokens_per_page), memory(pages * page_size, -1) {}

  struct Sequence {
    std::vector<int64_t> tokens;  // content of each position
    int64_t dropped = 0;          // pages whose content is gone
  };

  int64_t pages;
  int64_t page_size;
  PagePool pool;
  std::vector<int64_t> memory;  // of every slot
  std::map<int64_t, Sequence> sequences;
  int64_t next_content = 0;

  int64_t pages_of(int64_t tokens) const { return (tokens + page_size - 1) / page_size; }

  bool shared(int64_t id, int64_t page) const {
    for (const auto& [other, s] : sequences) {
      const std::vector<int64_t> table = pool.pages(other);
      if (other != id && std::find(table.begin(), table.end(), page) != table.end()) return true;
    }
    return false;
  }

  void append(int64_t id, int64_t n) {
    Sequence& s = sequences.at(id);
    std::vector<int64_t> slots(n, -7);
    PageCopy copy{.src = 99, .dst = 99};
    const std::vector<int64_t> before = pool.pages(id);
    const int64_t free_before = pool.stats().free_pages;
    const int64_t length = static_cast<int64_t>(s.tokens.size());
    const bool copies = n > 0 && length % page_size != 0 && shared(id, before.back());
    const int64_t needed = pages_of(length + n) - pages_of(length) + copies;
    const fovea_status code = fovea_page_pool_append(pool.get(), id, n, slots.data(), &copy);
    ASSERT_EQ(code, needed > free_before ? FOVEA_OUT_OF_MEMORY : FOVEA_OK);
    if (code != FOVEA_OK) {
      ASSERT_EQ(pool.pages(id), before);
      ASSERT_EQ(pool.tokens(id), length);
      ASSERT_EQ(pool.stats().free_pages, free_before);
      return;
    }
    ASSERT_EQ(copy.src >= 0, copies);
    if (copies) {
      ASSERT_NE(copy.src, copy.dst);
      std::copy_n(memory.begin() + copy.src * page_size, page_size, memory.begin() + copy.dst * page_size);
    } else {
      ASSERT_EQ(copy.dst, -1);
    }
    for (int64_t slot : slots) {
      ASSERT_GE(slot, 0);
      ASSERT_LT(slot, pages * page_size);
      memory[slot] = next_content;
      s.tokens.push_back(next_content++);
    }
  }

  void truncate(int64_t id, int64_t tokens) {
    Sequence& s = sequences.at(id);
    const bool allowed = tokens % page_size == 0 || tokens / page_size >= s.dropped;
    ASSERT_EQ(fovea_page_pool_truncate(pool.get(), id, tokens), allowed ? FOVEA_OK : FOVEA_INVALID_VALUE);
    if (!allowed) return;
    s.tokens.resize(tokens);
    s.dropped = std::min(s.dropped, pages_of(tokens));
  }

  void fork(int64_t id, int64_t tokens) {
    const Sequence& s = sequences.at(id);
    const bool allowed = tokens % page_size == 0 || tokens / page_size >= s.dropped;
    int64_t child = -5;
    ASSERT_EQ(fovea_page_pool_fork(pool.get(), id, tokens, &child), allowed ? FOVEA_OK : FOVEA_INVALID_VALUE);
    if (!allowed) {
      ASSERT_EQ(child, -5);
      return;
    }
    ASSERT_FALSE(sequences.contains(child));
    sequences[child] = {.tokens = {s.tokens.begin(), s.tokens.begin() + tokens},
                        .dropped = std::min(s.dropped, pages_of(tokens))};
  }

  void drop_before(int64_t id, int64_t token) {
    pool.drop_before(id, token);
    Sequence& s = sequences.at(id);
    s.dropped = std::max(s.dropped, token / page_size);
  }

  // Every sequence reads its tokens through its table, and the figures follow from the tables.
  void check() const {
    std::map<int64_t, int64_t> holders;
    for (const auto& [id, s] : sequences) {
      const std::vector<int64_t> table = pool.pages(id);
      const int64_t length = static_cast<int64_t>(s.tokens.size());
      ASSERT_EQ(pool.tokens(id), length);
      ASSERT_EQ(static_cast<int64_t>(table.size()), pages_of(length));
      for (int64_t p = 0; p < static_cast<int64_t>(table.size()); ++p) {
        ASSERT_EQ(table[p] < 0, p < s.dropped) << "sequence " << id << ", page " << p;
        ASSERT_LT(table[p], pages);
        if (table[p] >= 0) ++holders[table[p]];
      }
      for (int64_t t = s.dropped * page_size; t < length; ++t) {
        ASSERT_EQ(memory[table[t / page_size] * page_size + t % page_size], s.tokens[t])
            << "sequence " << id << ", token " << t;
      }
    }
    int64_t shared = 0;
    for (const auto& [page, count] : holders) shared += count > 1;
    const fovea::PagePoolStats stats = pool.stats();
    ASSERT_EQ(stats.pages, pages);
    ASSERT_EQ(stats.free_pages, pages - static_cast<int64_t>(holders.size()));
    ASSERT_EQ(stats.shared_pages, shared);
    ASSERT_EQ(stats.sequences, static_cast<int64_t>(sequences.size()));
  }
};

void one_step(Model& m, Rng& rng) {
  std::vector<int64_t> ids;
  for (const auto& [id, s] : m.sequences) ids.push_back(id);
  if (ids.empty() || (ids.size() < 8 && rng.chance(0.1))) {
    const int64_t id = m.pool.open();
    ASSERT_FALSE(m.sequences.contains(id));
    m.sequences[id] = {};
    return;
  }
  const int64_t id = rng.pick(ids);
  const int64_t length = static_cast<int64_t>(m.sequences.at(id).tokens.size());
  switch (rng.integer(0, 9)) {
    case 0:
      m.pool.close(id);
      m.sequences.erase(id);
      break;
    case 1:
      if (ids.size() < 8) m.fork(id, rng.chance(0.5) ? length : rng.integer(0, length));
      break;
    case 2:
      m.truncate(id, rng.integer(0, length));
      break;
    case 3:
      m.drop_before(id, rng.integer(0, length));
      break;
    default:
      m.append(id, rng.chance(0.5) ? rng.integer(0, 2) : rng.integer(0, 3 * m.page_size + 1));
  }
}

TEST(PagePool, RandomOperationsAgreeWithANaiveModel) {
  for (const int32_t page_size : {1, 2, 3, 16}) {
    for (const int64_t pages : {0, 1, 7, 40}) {
      SCOPED_TRACE(seed_note() + " page_size " + std::to_string(page_size) + " pages " + std::to_string(pages));
      Rng rng = test_rng(static_cast<uint64_t>(page_size * 100 + pages));
      Model m(pages, page_size);
      const int steps = static_cast<int>(600 * fovea::test::effort());
      for (int i = 0; i < steps; ++i) {
        SCOPED_TRACE("step " + std::to_string(i));
        ASSERT_NO_FATAL_FAILURE(one_step(m, rng));
        ASSERT_NO_FATAL_FAILURE(m.check());
      }
      while (!m.sequences.empty()) {
        m.pool.close(m.sequences.begin()->first);
        m.sequences.erase(m.sequences.begin());
      }
      EXPECT_EQ(m.pool.stats().free_pages, pages);
      EXPECT_EQ(m.pool.stats().shared_pages, 0);
    }
  }
}

TEST(PagePool, CopiesASharedPageOnlyWhereTheFirstNewTokenFallsIntoIt) {
  PagePool pool(8, 4);
  const int64_t parent = pool.open();
  std::vector<int64_t> slots(8);
  pool.append(parent, 6, slots.data());
  EXPECT_EQ((std::vector<int64_t>(slots.begin(), slots.begin() + 6)), (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
  const int64_t child = pool.fork(parent, 6);
  EXPECT_EQ(pool.stats().shared_pages, 2);
  EXPECT_EQ(pool.append(parent, 0, slots.data()).src, -1);
  const PageCopy copy = pool.append(child, 1, slots.data());
  EXPECT_EQ(copy.src, 1);
  EXPECT_EQ(copy.dst, 2);
  EXPECT_EQ(slots[0], 2 * 4 + 2);
  EXPECT_EQ(pool.pages(child), (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(pool.append(parent, 1, slots.data()).src, -1) << "the parent's last page is its own again";
  EXPECT_EQ(slots[0], 1 * 4 + 2);
  const int64_t aligned = pool.fork(parent, 4);
  EXPECT_EQ(pool.append(aligned, 1, slots.data()).src, -1) << "a full shared page is never written";
}

TEST(PagePool, OutOfMemoryCountsTheCopyAndChangesNothing) {
  PagePool pool(2, 4);
  const int64_t a = pool.open();
  pool.append(a, 6, nullptr);
  const int64_t b = pool.fork(a, 6);
  PageCopy copy;
  EXPECT_EQ(fovea_page_pool_append(pool.get(), b, 1, nullptr, &copy), FOVEA_OUT_OF_MEMORY);
  EXPECT_STREQ(fovea_last_error(), "tokens is 1: needs 1 pages, the pool has 0 free");
  EXPECT_EQ(pool.tokens(b), 6);
  EXPECT_EQ(pool.pages(b), pool.pages(a));
  pool.close(a);
  EXPECT_EQ(pool.append(b, 1, nullptr).src, -1) << "alone, it may write in place";
}

TEST(PagePool, DroppedPagesKeepPositions) {
  PagePool pool(4, 4);
  const int64_t s = pool.open();
  pool.append(s, 14, nullptr);
  pool.drop_before(s, 11);
  EXPECT_EQ(pool.pages(s), (std::vector<int64_t>{-1, -1, 2, 3}));
  EXPECT_EQ(pool.stats().free_pages, 2);
  pool.drop_before(s, 3);
  EXPECT_EQ(pool.pages(s), (std::vector<int64_t>{-1, -1, 2, 3})) << "dropping less changes nothing";
  EXPECT_EQ(fovea_page_pool_truncate(pool.get(), s, 7), FOVEA_INVALID_VALUE);
  EXPECT_STREQ(fovea_last_error(), "tokens is 7: ends inside a page that was dropped");
  int64_t child = 0;
  EXPECT_EQ(fovea_page_pool_fork(pool.get(), s, 5, &child), FOVEA_INVALID_VALUE);
  pool.truncate(s, 8);
  pool.append(s, 1, nullptr);
  EXPECT_EQ(pool.pages(s).size(), 3u);
  EXPECT_EQ(pool.pages(s)[1], -1);
}

TEST(PagePool, TableWritesNoMoreThanItsSize) {
  PagePool pool(4, 2);
  const int64_t s = pool.open();
  pool.append(s, 7, nullptr);
  std::vector<int64_t> ids(3, -9);
  int64_t tokens = 0, count = 0;
  EXPECT_EQ(fovea_page_pool_table(pool.get(), s, &tokens, ids.data(), 2, &count), FOVEA_OK);
  EXPECT_EQ(tokens, 7);
  EXPECT_EQ(count, 4);
  EXPECT_EQ(ids, (std::vector<int64_t>{0, 1, -9}));
  EXPECT_EQ(fovea_page_pool_table(pool.get(), s, nullptr, ids.data(), -1, nullptr), FOVEA_INVALID_VALUE);
}

TEST(PagePool, ReusesFreedPagesAndNeverSequenceIds) {
  PagePool pool(3, 1);
  const int64_t a = pool.open();
  pool.append(a, 3, nullptr);
  pool.close(a);
  EXPECT_EQ(fovea_page_pool_close(pool.get(), a), FOVEA_INVALID_VALUE);
  EXPECT_STREQ(fovea_last_error(), "sequence is 0: is not open in this pool");
  const int64_t b = pool.open();
  EXPECT_NE(a, b);
  std::vector<int64_t> slots(3);
  pool.append(b, 3, slots.data());
  EXPECT_EQ(std::set<int64_t>(slots.begin(), slots.end()), (std::set<int64_t>{0, 1, 2}));
}

TEST(PagePool, RefusesBadArgumentsByName) {
  fovea_page_pool* raw = nullptr;
  EXPECT_EQ(fovea_page_pool_create(4, 0, &raw), FOVEA_INVALID_VALUE);
  EXPECT_STREQ(fovea_last_error(), "page_size is 0: must be at least 1");
  EXPECT_EQ(fovea_page_pool_create(-1, 4, &raw), FOVEA_INVALID_VALUE);
  EXPECT_EQ(fovea_page_pool_create(INT64_MAX / 2, 4, &raw), FOVEA_INVALID_VALUE);
  EXPECT_EQ(fovea_page_pool_create(4, 4, nullptr), FOVEA_INVALID_VALUE);
  EXPECT_EQ(fovea_page_pool_open(nullptr, nullptr), FOVEA_INVALID_VALUE);
  EXPECT_STREQ(fovea_last_error(), "pool is null: must be a pool");
  PagePool pool(4, 4);
  const int64_t s = pool.open();
  PageCopy copy;
  EXPECT_EQ(fovea_page_pool_append(pool.get(), s, -1, nullptr, &copy), FOVEA_INVALID_VALUE);
  EXPECT_EQ(fovea_page_pool_append(pool.get(), s, 1, nullptr, nullptr), FOVEA_INVALID_VALUE);
  pool.append(s, 3, nullptr);
  EXPECT_EQ(fovea_page_pool_append(pool.get(), s, INT64_MAX, nullptr, &copy), FOVEA_INVALID_VALUE);
  EXPECT_EQ(fovea_page_pool_truncate(pool.get(), s, 4), FOVEA_INVALID_VALUE);
  EXPECT_STREQ(fovea_last_error(), "tokens is 4: must be in [0, 3] (length of the sequence)");
  EXPECT_EQ(fovea_page_pool_drop_before(pool.get(), s, 4), FOVEA_INVALID_VALUE);
  EXPECT_EQ(fovea_page_pool_get_stats(pool.get(), nullptr), FOVEA_INVALID_VALUE);
  EXPECT_EQ(pool.tokens(s), 3);
}

// A pool costs memory only for the pages it has handed out, and growing token by token is not quadratic.
TEST(PagePool, HugePoolsAndLongSequencesAreCheap) {
  PagePool pool(int64_t{1} << 50, 16);
  const int64_t s = pool.open();
  int64_t slot = 0;
  for (int64_t i = 0; i < 200000; ++i) {
    pool.append(s, 1, &slot);
    ASSERT_EQ(slot, i);
  }
  pool.truncate(s, 0);
  EXPECT_EQ(pool.stats().free_pages, int64_t{1} << 50);
}

}  // namespace
