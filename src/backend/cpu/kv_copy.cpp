// SPDX-License-Identifier: Apache-2.0
// Copies of pages: every id is checked, then each page and stream is one task of memcpy runs.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "backend/cpu/context.h"

namespace fovea::cpu {

namespace {

struct Pair {
  i64_t src, dst;
};

Pair pair_at(const KvCopyArgs& a, i64_t i) {
  return {index_at(a.copies, i, 0), index_at(a.copies, i, 1)};
}

std::string entry(i64_t i, int column) {
  return "copies[" + std::to_string(i) + "][" + std::to_string(column) + "]";
}

Status check_ids(const KvCopyArgs& a) {
  for (i64_t i = 0; i < a.spec.copies; ++i) {
    const Pair p = pair_at(a, i);
    if (p.src < 0 || p.src >= a.src_pages) {
      return invalid_value(entry(i, 0), p.src, "must be in [0, " + std::to_string(a.src_pages) + ") (src.pages)");
    }
    if (p.dst < 0 || p.dst >= a.dst_pages) {
      return invalid_value(entry(i, 1), p.dst, "must be in [0, " + std::to_string(a.dst_pages) + ") (dst.pages)");
    }
  }
  return {};
}

// The other pair that also names `page`, as a destination or, in one cache, as a source; -1: none. For messages.
i64_t other_pair(const KvCopyArgs& a, i64_t i, i64_t page) {
  for (i64_t j = 0; j < a.spec.copies; ++j) {
    const Pair p = pair_at(a, j);
    if (j != i && (p.dst == page || (a.same_cache && p.src == page))) return j;
  }
  return -1;
}

// No destination may be in another pair: the copies run in any order. `sorted` holds all destinations.
Status check_overlap(const KvCopyArgs& a, i64_t* sorted) {
  const i64_t n = a.spec.copies;
  for (i64_t i = 0; i < n; ++i) sorted[i] = pair_at(a, i).dst;
  std::sort(sorted, sorted + n);
  for (i64_t i = 0; i < n; ++i) {
    const Pair p = pair_at(a, i);
    const auto [first, last] = std::equal_range(sorted, sorted + n, p.dst);
    const bool twice = last - first > 1;
    const bool read = a.same_cache && p.src != p.dst && std::binary_search(sorted, sorted + n, p.src);
    if (!twice && !read) continue;
    const i64_t page = twice ? p.dst : p.src;
    return invalid_value(
        entry(i, twice ? 1 : 0), page,
        "is also in copies[" + std::to_string(other_pair(a, i, page)) + "]: no destination may be in another pair");
  }
  return {};
}

// One loop of a copy: `count` steps, strides in bytes.
struct Loop {
  i64_t count, src, dst;
};

// A page of one stream, in the longest runs that both layouts have.
void copy_page(const KvCopyStream& s, const KvSpec& kv, Pair pair) {
  Loop inner{kv.heads, s.src.head_stride, s.dst.head_stride};
  Loop outer{kv.page_size, s.src.token_stride, s.dst.token_stride};
  if (inner.count == 1 || (outer.count > 1 && std::abs(outer.dst) < std::abs(inner.dst))) std::swap(inner, outer);
  i64_t run = s.bytes;
  for (Loop* loop : {&inner, &outer}) {
    if (loop->count > 1 && (loop->src != run || loop->dst != run)) break;
    run *= loop->count;
    loop->count = 1;
  }
  const char* from = s.src.base + pair.src * s.src.page_stride;
  char* to = s.dst.base + pair.dst * s.dst.page_stride;
  for (i64_t i = 0; i < outer.count; ++i) {
    for (i64_t j = 0; j < inner.count; ++j) {
      std::memmove(to + i * outer.dst + j * inner.dst, from + i * outer.src + j * inner.src, static_cast<size_t>(run));
    }
  }
}

i64_t* aligned(void* scratch) {
  constexpr uintptr_t kAlign = alignof(i64_t);
  return reinterpret_cast<i64_t*>((reinterpret_cast<uintptr_t>(scratch) + kAlign - 1) / kAlign * kAlign);
}

}  // namespace

Status kv_copy(BackendContext& context, const KvCopyPlan&, const KvCopyArgs& args, const fovea_exec& exec) {
  FOVEA_TRY(check_ids(args));
  i64_t few[kCopiesWithoutScratch];
  FOVEA_TRY(check_overlap(args, args.spec.copies <= kCopiesWithoutScratch ? few : aligned(exec.scratch)));
  cpu(context).parallel_for(args.spec.copies * args.streams, [&](i64_t i) {
    const Pair pair = pair_at(args, i / args.streams);
    if (args.same_cache && pair.src == pair.dst) return;
    copy_page(args.stream[i % args.streams], args.spec.kv, pair);
  });
  return {};
}

}  // namespace fovea::cpu
