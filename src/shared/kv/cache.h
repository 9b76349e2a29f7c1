// SPDX-License-Identifier: Apache-2.0
// A KV cache as kernels see it: facts for planning, the device block, and the one place that turns a token into an
// address. Freestanding.
#pragma once

#include "shared/kv/codec.h"
#include "shared/kv/planes.h"
#include "shared/kv/shard.h"
#include "shared/view.h"

namespace fovea {

enum class KvLayout : int { contiguous = 0, ragged = 1, paged = 2, paged_csr = 3 };

struct KvSideSpec {
  Codec codec = Codec::none;
  ScaleKind scale_kind = ScaleKind::none;
  Dtype scale_dtype = Dtype::none;
  int scale_group = 0;  // dims
  bool operator==(const KvSideSpec&) const = default;
};

// What a plan may know of a cache.
struct KvSpec {
  int heads = 0;
  int d_k = 0;  // with d_rope
  int d_v = 0;
  int d_rope = 0;
  Dtype rope_dtype = Dtype::none;
  int page_size = 0;  // tokens
  int v_in_k = 0;
  KvSideSpec k;
  KvSideSpec v;            // k's where v_in_k
  int record_version = 0;  // 0: plain strides
  float prescale = 1;      // on stored scales of grids
  // Only where sequences are read through the cache:
  KvLayout layout = KvLayout::contiguous;
  int has_v_page_table = 0;
  int has_kv_lens = 0;
  int has_starts = 0;
  Shard shard;
  i64_t max_len = 0;  // the most tokens of one sequence that this rank may hold
  bool operator==(const KvSpec&) const = default;
};

struct KvStream {
  char* base = nullptr;
  i64_t page_stride = 0;   // bytes
  i64_t token_stride = 0;  // bytes
  i64_t head_stride = 0;   // bytes
};

struct KvView {
  KvSpec spec;
  i64_t pages = 0;  // in the pool
  KvStream k;
  KvStream v;  // k where v_in_k
  KvStream k_scale;
  KvStream v_scale;
  KvStream k_rope;
  IndexView page_table;     // [batch, columns], or [entries] with page_indptr
  IndexView v_page_table;   // as page_table; absent where V shares it
  IndexView page_indptr;    // [batch + 1]
  IndexView kv_lens;        // [batch]
  IndexView starts;         // [batch]
  IndexView cu_seqlens_kv;  // [batch + 1]
};

struct KvSlot {
  i64_t page = 0;
  i64_t offset = 0;  // tokens, in [0, page_size)
};

constexpr KvSlot kv_slot(i64_t slot, int page_size) {
  return {slot / page_size, slot % page_size};
}

// The page id that column `column` of request b's table holds, in the table of K or of V.
inline i64_t kv_page_id(const KvView& kv, const IndexView& table, i64_t b, i64_t column) {
  return kv.spec.layout == KvLayout::paged ? index_at(table, b, column)
                                           : index_at(table, index_at(kv.page_indptr, b) + column);
}

// Where token t (counted on this rank) of request b is stored, by the table of K or of V.
inline KvSlot kv_locate(const KvView& kv, const IndexView& table, i64_t b, i64_t t) {
  switch (kv.spec.layout) {
    case KvLayout::contiguous:
      return {b, t};
    case KvLayout::ragged:
      return {0, index_at(kv.cu_seqlens_kv, b) + t};
    default:
      const i64_t column = t / kv.spec.page_size;
      return {kv_page_id(kv, table, b, column), t - column * kv.spec.page_size};
  }
}
inline const IndexView& kv_v_table(const KvView& kv) {
  return kv.v_page_table.given() ? kv.v_page_table : kv.page_table;
}

// Calls body(i, slot) for tokens first + i of request b, i < count, with one look into the table per page.
template <class Body>
inline void kv_for_tokens(const KvView& kv, const IndexView& table, i64_t b, i64_t first, i64_t count,
                          const Body& body) {
  const bool paged = kv.spec.layout == KvLayout::paged || kv.spec.layout == KvLayout::paged_csr;
  for (i64_t i = 0; i < count;) {
    KvSlot slot = kv_locate(kv, table, b, first + i);
    const i64_t left = paged ? kv.spec.page_size - slot.offset : count - i;
    const i64_t end = left < count - i ? i + left : count;
    for (; i < end; ++i, ++slot.offset) body(i, slot);
  }
}

// How many tokens of request b its pages, or its part of a ragged buffer, can hold on this rank.
inline i64_t kv_capacity(const KvView& kv, i64_t b) {
  switch (kv.spec.layout) {
    case KvLayout::contiguous:
      return kv.spec.page_size;
    case KvLayout::ragged:
      return index_at(kv.cu_seqlens_kv, b + 1) - index_at(kv.cu_seqlens_kv, b);
    case KvLayout::paged:
      return kv.page_table.shape[1] * kv.spec.page_size;
    default:
      return (index_at(kv.page_indptr, b + 1) - index_at(kv.page_indptr, b)) * kv.spec.page_size;
  }
}

// Tokens of request b over all ranks, and the first one that may be seen.
inline i64_t kv_len(const KvView& kv, i64_t b) {
  return kv.kv_lens.given() ? index_at(kv.kv_lens, b) : kv_capacity(kv, b);
}
inline i64_t kv_start(const KvView& kv, i64_t b) {
  return kv.starts.given() ? index_at(kv.starts, b) : 0;
}

// The one address of a vector of a head, in bytes.
inline char* kv_address(const KvStream& s, KvSlot slot, i64_t head) {
  return s.base + slot.page * s.page_stride + slot.offset * s.token_stride + head * s.head_stride;
}

// Bytes of a vector in its first plane, and in its second; codecs without planes lie in the first.
constexpr int kv_row_bytes(const KvSideSpec& side, int dims, int plane) {
  if (codec_is_grid(side.codec)) return plane_row_bytes(grid_planes(codec_grid(side.codec)).bits[plane], dims);
  return plane == 0 ? dims * dtype_block_bytes(codec_dtype(side.codec)) : 0;
}

// The second plane of a side of a record; it follows the first.
inline KvStream kv_second_plane(const KvSpec& spec, const KvSideSpec& side, const KvStream& first, int dims) {
  KvStream second = first;
  second.base += static_cast<i64_t>(spec.page_size) * kv_row_bytes(side, dims, 0);
  second.token_stride = kv_row_bytes(side, dims, 1);
  return second;
}

// The scale of a vector; for kind group of its first group, the next ones follow packed. Strides that a kind does not
// use are zero, so one address serves all kinds.
inline float kv_scale(const KvSideSpec& side, const KvStream& s, KvSlot slot, i64_t head, int group = 0) {
  if (side.scale_kind == ScaleKind::none) return 1.0f;
  return float_at(kv_address(s, slot, head) + group * dtype_block_bytes(side.scale_dtype), side.scale_dtype);
}

}  // namespace fovea
