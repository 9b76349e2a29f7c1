// SPDX-License-Identifier: Apache-2.0
// kv_copy: what a plan is made from, and the block a kernel receives. Freestanding.
#pragma once

#include "shared/kv/cache.h"
#include "shared/view.h"

namespace fovea {

inline constexpr int kMaxCopyStreams = 7;  // K, V, their second planes and scales, k_rope

struct KvCopySpec {
  KvSpec kv;         // of both caches
  i64_t copies = 0;  // the most a run may have
  bool operator==(const KvCopySpec&) const = default;
};

// One stream of both caches: `bytes` of every vector of a page.
struct KvCopyStream {
  KvStream src;
  KvStream dst;
  i64_t bytes = 0;
};

struct KvCopyArgs {
  KvCopySpec spec;
  View copies;  // [n, 2] pages of src and dst
  i64_t src_pages = 0;
  i64_t dst_pages = 0;
  int same_cache = 0;  // a page id means the same memory in both
  int streams = 0;
  KvCopyStream stream[kMaxCopyStreams];
};

}  // namespace fovea
