// SPDX-License-Identifier: Apache-2.0
// attention: what a block of threads works on, for every family: sequence, rows, the keys that they see, and where
// those lie. All token numbers are those that this rank holds ("held"); they fit 31 bits, which the plan checks.
#pragma once

#include "backend/cuda/kernels/grid_start.cuh"
#include "backend/cuda/kernels/ptx/address.cuh"
#include "backend/cuda/kernels/status.cuh"
#include "shared/params/attention_cuda.h"

namespace fovea {

constexpr unsigned kAllLanes = 0xFFFFFFFFu;

inline int lane_id() {
  return static_cast<int>(threadIdx.x) % 32;
}
inline int warp_id() {
  return static_cast<int>(threadIdx.x) / 32;
}
inline float minus_infinity() {
  return __int_as_float(static_cast<int>(0xFF800000));
}
inline i64_t clamp(i64_t x, i64_t least, i64_t most) {
  return x < least ? least : x > most ? most : x;
}

// The request of sequence b, with every length cut to what memory there is. A cut is reported.
inline AttentionRequest sequence_of(const AttentionCudaArgs& g, i64_t b) {
  const AttentionArgs& a = g.a;
  AttentionRequest r = attention_request(a, b);
  bool wrong = false;
  const auto fit = [&](i64_t& x, i64_t least, i64_t most) {
    const i64_t inside = clamp(x, least, most);
    wrong |= inside != x;
    x = inside;
  };
  if (a.spec.padded) {
    fit(r.active, 0, r.tokens);
    fit(r.q_len, 0, r.tokens - r.active);
  } else {
    fit(r.first, 0, a.spec.tokens);
    fit(r.tokens, 0, a.spec.tokens - r.first);
    r.q_len = r.tokens;
  }
  for (int s = 0; s < a.spec.segments; ++s) {
    AttentionRequest::Segment& segment = r.segment[s];
    i64_t most = at_most(kv_capacity(a.kv[s], b), a.spec.kv[s].max_len);
    if (a.spec.kv[s].layout == KvLayout::paged_csr) {
      const i64_t first = index_at(a.kv[s].page_indptr, b), entries = a.kv[s].page_table.shape[0];
      if (first < 0 || first > entries) most = 0;
      most = at_most(most, (entries - first) * a.kv[s].spec.page_size);
    } else if (a.spec.kv[s].layout == KvLayout::ragged) {
      const i64_t first = index_at(a.kv[s].cu_seqlens_kv, b);
      most = first < 0 ? 0 : at_most(most, a.kv[s].spec.page_size - first);
    }
    fit(segment.held, 0, at_least(most, 0));
  }
  if (wrong) report_status(g.status, StatusCode::invalid_value);
  return r;
}

// Sum of the values of the lanes up to this one.
template <class T>
inline T warp_scan(T value) {
  const int lane = lane_id();
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const T other = __shfl_up_sync(kAllLanes, value, step);
    if (lane >= step) value += other;
  }
  return value;
}

template <class T>
inline T warp_sum(T value) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(kAllLanes, value, step);
  return value;
}

inline bool given(const AttentionStart& s, Column c) {
  return s.column[static_cast<int>(c)].data != nullptr;
}
inline i64_t entry_at(const AttentionStart& s, Column c, int i) {
  const IndexColumn& column = s.column[static_cast<int>(c)];
  const char* p = column.data + i * column.stride;
  return (s.wide >> static_cast<int>(c) & 1) != 0 ? load<i64_t>(p) : load<i32_t>(p);
}
// Cut to [0, most]; `wrong` where that changes it.
inline int cut(i64_t x, int most, bool& wrong) {
  const int inside = static_cast<int>(clamp(x, 0, most));
  wrong |= inside != x;
  return inside;
}

// Rows of Q's view that a sequence has, ragged Q.
struct SequenceTokens {
  int first, count;
};
inline SequenceTokens sequence_tokens(const AttentionCudaArgs& g, int b) {
  const AttentionStart& s = g.start;
  bool wrong = false;
  const int first = cut(entry_at(s, Column::cu_seqlens_q, b), s.tokens, wrong);
  const int count = cut(entry_at(s, Column::cu_seqlens_q, b + 1) - first, s.tokens - first, wrong);
  if (wrong) report_status(g.status, StatusCode::invalid_value);
  return {first, count};
}

// A row block of the call: of which sequence, and where that one's rows lie in Q's view.
struct Slot {
  i64_t b;
  int row_block;
  int first, tokens;
};

// Each lane has a sequence of `blocks` row blocks, and all are counted level by level: row block 0 of every sequence
// that has one, then row block 1, and so on. The level of row block `index`, which becomes its number in the level.
__noinline__ int find_level(int blocks, int& index) {
  const int lane = lane_id();
  int most = blocks;
#pragma unroll
  for (int step = 16; step > 0; step /= 2) most = max(most, __shfl_xor_sync(kAllLanes, most, step));
  int level = 0, before = 0, step = most;
#pragma unroll 1
  do {
    step = (step + 31) / 32;  // each lane tries a level
    int passed = 0;           // row blocks before it
#pragma unroll 8
    for (int i = 0; i < 32; ++i) passed += min(__shfl_sync(kAllLanes, blocks, i), level + lane * step);
    const int last = 31 - __clz(static_cast<int>(__ballot_sync(kAllLanes, passed <= index)));
    level += last * step;
    before = __shfl_sync(kAllLanes, passed, last);
  } while (step > 1);
  index -= before;
  return level;
}

// Finds slot `index`; false past the end. Every warp does the same. Up to 32 sequences together are counted level by
// level, so that blocks that follow each other are alike long; prefill counts from the end, long ones first.
inline bool find_slot(const AttentionCudaArgs& g, int block_rows, int index, Slot& slot) {
  const AttentionStart& s = g.start;
  const int group = s.group.divisor;
  if (s.padded) {
    const int blocks = (s.tokens * group + block_rows - 1) / block_rows;
    if (index >= static_cast<i64_t>(s.batch) * blocks) return false;
    const int together = static_cast<int>(static_cast<unsigned>(index) / (32u * static_cast<unsigned>(blocks)));
    const int in = index - together * 32 * blocks, count = min(32, s.batch - together * 32), level = in / count;
    slot = {together * 32 + in - level * count, level, 0, s.tokens};
    return true;
  }
  const int lane = lane_id();
#pragma unroll 1
  for (int first = 0; first < s.batch; first += 32) {
    SequenceTokens mine = {0, 0};
    if (first + lane < s.batch) mine = sequence_tokens(g, first + lane);
    const int blocks = (mine.count * group + block_rows - 1) / block_rows;
    const int all = warp_sum(blocks);
    if (index >= all) {
      index -= all;
      continue;
    }
    unsigned here = __ballot_sync(kAllLanes, blocks > 0);
    const int some = __shfl_sync(kAllLanes, blocks, __ffs(static_cast<int>(here)) - 1), count = __popc(here);
    if (__all_sync(kAllLanes, blocks == some || blocks == 0)) {
      slot.row_block = index / count;
      index -= slot.row_block * count;
    } else {
      slot.row_block = find_level(blocks, index);
      here = __ballot_sync(kAllLanes, blocks > slot.row_block);
    }
    // The lane with `index` others of the level before it.
    const bool found = (here >> lane & 1) != 0 && __popc(here & ((1u << lane) - 1)) == index;
    const int owner = __ffs(static_cast<int>(__ballot_sync(kAllLanes, found))) - 1;
    slot.b = first + owner;
    slot.first = __shfl_sync(kAllLanes, mine.first, owner);
    slot.tokens = __shfl_sync(kAllLanes, mine.count, owner);
    return true;
  }
  return false;
}

// Of a block whose x counts slots from the last to the first, for g.together units at a time; y: the times.
struct SlotUnit {
  int slot, unit;
};
inline SlotUnit slot_of_block(const AttentionCudaArgs& g) {
  const int x = static_cast<int>(blockIdx.x), y = static_cast<int>(blockIdx.y), from_end = divide(x, g.together);
  return {static_cast<int>(g.slots) - 1 - from_end, (y - from_end) * g.together.divisor + x};
}

// Rows of a block: `count` of them from `first` on, of one sequence and kv head.
struct RowBlock {
  int first = 0;
  int count = 0;
};

// The held keys of segment s that a row sees by interval.
inline Interval row_keys(const AttentionArgs& a, const AttentionRequest& r, int s, i64_t token) {
  return intersect(attention_held(a, r, s, attention_interval(a, r, token)), {0, r.segment[s].held});
}
// Those that any row of the block sees, or a few more: bounds grow with the query.
inline Interval block_keys(const AttentionArgs& a, const AttentionRequest& r, int s, RowBlock rows) {
  if (rows.count <= 0) return {};
  const i64_t first = at_least(rows.first / a.spec.group, r.active);
  const i64_t last = at_most((rows.first + rows.count - 1) / a.spec.group, r.active + r.q_len - 1);
  if (last < first) return {};
  return intersect(attention_held(a, r, s, {attention_interval(a, r, first).lo, attention_interval(a, r, last).hi}),
                   {0, r.segment[s].held});
}

// Tiles [first, last) that cover some keys.
struct TileRange {
  int first = 0;
  int last = 0;
  int count() const { return last - first; }
};
inline TileRange tiles_of(Interval keys) {
  if (keys.empty()) return {};
  return {static_cast<int>(keys.lo / kTileKeys), static_cast<int>((keys.hi + kTileKeys - 1) / kTileKeys)};
}
inline int count_block_tiles(const AttentionArgs& a, const AttentionRequest& r, RowBlock rows) {
  int tiles = 0;
#pragma unroll 1
  for (int s = 0; s < a.spec.segments; ++s) tiles += tiles_of(block_keys(a, r, s, rows)).count();
  return tiles;
}

// Where the keys of one segment of one sequence and kv head are: [0] of K, [1] of V, [2] of K's rope dims. kv_locate
// and kv_address with all that does not depend on the key done once.
struct KeySource {
  const char* base[3];
  i64_t page_stride[3], token_stride[3];  // bytes
  const char* scale[2];                   // null: no scale per token
  i64_t scale_page_stride[2], scale_token_stride[2];
  Dtype scale_dtype[2];
  const char* table[2];   // the sequence's page ids; null = one page, which base includes
  i64_t table_stride[2];  // bytes
  int wide[2];            // ids are i64
  i64_t pages;
  int page_size, page_shift;  // page_size = 1 << page_shift, or page_shift < 0
  int lo, hi;                 // keys that some row of the block sees
};

inline bool scaled_per_token(const KvSideSpec& side) {
  return side.scale_kind == ScaleKind::token_head;
}
// The scale of a side that one number per kv head holds; 1 where scales differ by token.
inline float uniform_scale(const KvSideSpec& side, const KvStream& s, i64_t kv_head) {
  return scaled_per_token(side) ? 1.0f : kv_scale(side, s, {0, 0}, kv_head);
}

// For one thread.
inline void find_source(const AttentionArgs& a, const AttentionRequest& r, int s, int kv_head, int v_dim,
                        KeySource& source) {
  const KvView& kv = a.kv[s];
  const bool csr = kv.spec.layout == KvLayout::paged_csr, paged = csr || kv.spec.layout == KvLayout::paged;
  const i64_t first_entry = csr ? index_at(kv.page_indptr, r.b) : 0;
  source.pages = kv.pages;
  source.page_size = kv.spec.page_size;
  source.page_shift = __popc(kv.spec.page_size) == 1 ? __ffs(kv.spec.page_size) - 1 : -1;
  i64_t page = r.b, offset = 0;
  if (kv.spec.layout == KvLayout::ragged) page = 0, offset = index_at(kv.cu_seqlens_kv, r.b);
#pragma unroll
  for (int side = 0; side < 3; ++side) {
    const KvStream& stream = side == 0 ? kv.k : side == 1 ? kv.v : kv.k_rope;
    source.base[side] = stream.base + kv_head * stream.head_stride;
    source.page_stride[side] = stream.page_stride;
    source.token_stride[side] = stream.token_stride;
    if (!paged) source.base[side] += page * stream.page_stride + offset * stream.token_stride;
  }
  if (!kv.spec.v_in_k) source.base[1] += v_dim * dtype_block_bytes(codec_dtype(kv.spec.v.codec));
#pragma unroll
  for (int side = 0; side < 2; ++side) {
    const IndexView& table = side == 1 && kv.v_page_table.given() ? kv.v_page_table : kv.page_table;
    source.table[side] = !paged ? nullptr : csr ? row(table, first_entry) : row(table, r.b);
    source.wide[side] = table.dtype == Dtype::i64;
    source.table_stride[side] = table.stride[csr ? 0 : 1] * (source.wide[side] ? 8 : 4);
    const KvSideSpec& spec = side == 0 ? kv.spec.k : kv.spec.v;
    const KvStream& stream = side == 0 ? kv.k_scale : kv.v_scale;
    source.scale[side] = nullptr;
    if (scaled_per_token(spec)) {
      source.scale[side] = stream.base + kv_head * stream.head_stride;
      source.scale_page_stride[side] = stream.page_stride;
      source.scale_token_stride[side] = stream.token_stride;
      source.scale_dtype[side] = spec.scale_dtype;
      if (!paged) source.scale[side] += page * stream.page_stride + offset * stream.token_stride;
    }
  }
}

// Where key t is, if its page exists.
struct KeyPlace {
  i64_t page = -1;
  int offset = 0;  // tokens in the page
};
inline KeyPlace key_place(const KeySource& source, int side, int t) {
  if (source.table[side] == nullptr) return {0, t};
  const int column = source.page_shift >= 0 ? t >> source.page_shift : t / source.page_size;
  const char* entry = source.table[side] + column * source.table_stride[side];
  const i64_t page = source.wide[side] ? *reinterpret_cast<const i64_t*>(entry) : *reinterpret_cast<const int*>(entry);
  if (static_cast<u64_t>(page) >= static_cast<u64_t>(source.pages)) return {};
  return {page, t - column * source.page_size};
}

}  // namespace fovea
