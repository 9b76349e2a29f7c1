// SPDX-License-Identifier: Apache-2.0
// The caches of the operations that have one.
#pragma once

#include "bench/data.h"
#include "bench/shape.h"

namespace fovea::bench {

// Pages of one sequence: capacity for kv_len tokens. Contiguous caches have one page of that size.
struct Paging {
  explicit Paging(const Shape& s)
      : page_size(s.page_size ? s.page_size : s.kv_len), per_sequence((s.kv_len + page_size - 1) / page_size) {}
  int64_t page_size, per_sequence;
};

enum class Reuse { kPerSet, kCommon };  // a cache for each set of operands, or one for all

// The streams, without tables and lengths.
Kv make_cache(const Shape& s, Data& data, int64_t page_size, int64_t pages, Reuse reuse);

// Bytes of one token of K and V over all kv heads: elements and scales of kinds that grow with tokens.
double token_bytes(const Shape& s);
// The same for an output or input of `dims` elements.
double bytes_of(int32_t dtype, double elements);

}  // namespace fovea::bench
