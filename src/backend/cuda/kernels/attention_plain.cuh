// SPDX-License-Identifier: Apache-2.0
// attention, plain builds (config::general = 0: one segment of whole sequences, a mask of bands, no scales by token):
// what a block works on, found in few steps by every thread for itself, and copies whose addresses are simple.
#pragma once

#include "backend/cuda/kernels/attention_store.cuh"

namespace fovea {

// One sequence, in registers. Keys are positions and held tokens at once.
struct PlainSequence {
  int b = 0;
  int first = 0, tokens = 0;  // rows of Q's view
  int active = 0, q_len = 0;  // rows in use
  int len = 0;                // keys of the sequence
  int start = 0, end = 0;     // keys that may be seen and that memory holds
};

// A launch's parameters are new to the card: asked for all at once, their lines come together and not one by one as
// they are needed.
inline void touch_parameters(const AttentionCudaArgs& g) {
  constexpr int kLine = 64;  // bytes
  const int lines = static_cast<int>(sizeof(AttentionCudaArgs)) / kLine;
  unsigned seen = 0;
  for (int i = static_cast<int>(threadIdx.x); i < lines; i += kThreads) {
    seen |= *reinterpret_cast<const unsigned*>(reinterpret_cast<const char*>(&g) + i * kLine);
  }
  ptx::keep(seen);
}

inline PlainSequence plain_sequence(const AttentionCudaArgs& g, int b, SequenceTokens rows) {
  const AttentionStart& s = g.start;
  PlainSequence r = {.b = b, .first = rows.first, .tokens = rows.count, .active = 0, .q_len = rows.count};
  bool wrong = false;
  if (s.padded) {
    if (given(s, Column::q_starts)) r.active = cut(entry_at(s, Column::q_starts, b), rows.count, wrong);
    r.q_len = rows.count - r.active;
    if (given(s, Column::q_lens)) r.q_len = cut(entry_at(s, Column::q_lens, b), r.q_len, wrong);
  }
  i64_t capacity = s.capacity, room = s.capacity;
  if (given(s, Column::kv_offsets)) {
    const i64_t offset = entry_at(s, Column::kv_offsets, b);
    capacity = (entry_at(s, Column::kv_offsets, b + 1) - offset) * s.unit;
    room = offset < 0 || offset > s.limit ? 0 : at_most(capacity, (s.limit - offset) * s.unit);
  }
  const i64_t len = given(s, Column::kv_lens) ? entry_at(s, Column::kv_lens, b) : capacity;
  r.len = static_cast<int>(clamp(len, 0, kMostKeys));
  r.end = cut(len, static_cast<int>(clamp(room, 0, s.max_len)), wrong);
  if (given(s, Column::kv_starts)) {
    r.start = static_cast<int>(clamp(entry_at(s, Column::kv_starts, b), 0, kMostKeys));
  }
  if (wrong) report_status(g.status, StatusCode::invalid_value);
  return r;
}

// [lo, hi): the keys that a row sees; 0, 0 for none.
struct Keys {
  int lo, hi;
};
inline Keys plain_keys(const AttentionStart& s, const PlainSequence& r, int token) {
  const int p = r.len - r.q_len + token - r.active;
  const Keys keys = {max(p - s.left, r.start), min(p + s.right + 1, r.end)};
  const bool in_use = token >= r.active && token < r.active + r.q_len;
  return in_use && keys.lo < keys.hi ? keys : Keys{0, 0};
}

// What all rows of [first, first + count) see, and what any of them sees. Both bounds grow with the query; rows not in
// use see nothing.
struct RowsKeys {
  Keys every, any;
};
inline RowsKeys plain_rows_keys(const AttentionStart& s, const PlainSequence& r, int first, int count) {
  if (count <= 0) return {{0, 0}, {0, 0}};
  const int begin = divide(first, s.group), last = divide(first + count - 1, s.group);
  const int from = max(begin, r.active), to = min(last, r.active + r.q_len - 1);
  if (from > to) return {{0, 0}, {0, 0}};
  const Keys low = plain_keys(s, r, from), high = plain_keys(s, r, to);
  RowsKeys keys = {{high.lo, low.hi}, {low.lo, high.hi}};
  if (from != begin || to != last || low.hi == 0) keys.every = {0, 0};
  if (low.hi == 0) keys.any.lo = 0;
  return keys;
}

inline AttentionRequest request_of(const AttentionArgs& a, const PlainSequence& r) {
  AttentionRequest request;
  request.b = r.b;
  request.batch_row = a.spec.padded ? r.b : 0;
  request.first = r.first;
  request.tokens = r.tokens;
  request.active = r.active;
  request.q_len = r.q_len;
  request.len = r.len;
  return request;
}

// Q's rows of 16-bit operands as they are; false where load_q has to make them.
inline bool copy_plain_q(const AttentionStart& s, const PlainSequence& r, RowBlock rows, int kv_head, char* q) {
  if (kParts != 1 || kK8 || config::d_rope > 0 || s.q_type != kKind || !s.q_simple || s.d_k != config::d_main)
    return false;
  constexpr int kLanes = lanes_per_row(QRows::kChunks), kStep = kThreads / kLanes;
  const int group = s.group.divisor, chunk = static_cast<int>(threadIdx.x) % kLanes;
  int n = static_cast<int>(threadIdx.x) / kLanes;
  const int token = divide(rows.first + n, s.group);
  int head = rows.first + n - token * group;
  const int token_step = divide(kStep, s.group), head_step = kStep - token_step * group;
  const i64_t step = token_step * s.q_token + head_step * s.q_head, wrap = s.q_token - group * s.q_head;
  // Rows in use are [used, used + count) of the block.
  const int used = max(r.active * group - rows.first, 0);
  const int count = min((r.active + r.q_len) * group - rows.first, rows.count) - used;
  const unsigned to = shared_address(q) + n * QRows::kStride + chunk * 16;
  const char* from =
      s.q + r.b * s.q_batch + (r.first + token) * s.q_token + (kv_head * group + head) * s.q_head + chunk * 16;
#pragma unroll 4
  for (int i = 0; i < config::block_rows; i += kStep, n += kStep) {
    const bool exists = n >= used && n - used < count;
    if (config::block_rows % kStep == 0 || n < config::block_rows) {
#pragma unroll
      for (int c = 0; c < QRows::kChunks; c += kLanes) {
        if (QRows::kChunks % kLanes != 0 && c + chunk >= QRows::kChunks) continue;
        family::copy_16(to + i * QRows::kStride + c * 16, from + c * 16, exists ? 16 : 0);
      }
    }
    from += step;
    head += head_step;
    if (head >= group) head -= group, from += wrap;
  }
  return true;
}

// Out of the way of those that need none: a block that starts reads all instructions up to its steps.
__noinline__ void make_plain_q(const AttentionCudaArgs& g, const PlainSequence& r, RowBlock rows, int kv_head,
                               char* q) {
  bool any_factor;
  load_q(g, request_of(g.a, r), rows, kv_head, config::block_rows, q, nullptr, any_factor);
}
inline void load_plain_q(const AttentionCudaArgs& g, const PlainSequence& r, RowBlock rows, int kv_head, char* q) {
  if (!copy_plain_q(g.start, r, rows, kv_head, q)) make_plain_q(g, r, rows, kv_head, q);
  family::commit();
}
__noinline__ void find_any_source(const AttentionCudaArgs& g, const PlainSequence& r, int kv_head, int v_dim, Keys keys,
                                  KeySource& source) {
  find_source(g.a, request_of(g.a, r), 0, kv_head, v_dim, source);
  source.lo = keys.lo;
  source.hi = keys.hi;
}

// Where a sequence's keys are, for every thread. `simple`: 16 keys from a multiple of 16 lie in one page, and rows are
// whole and aligned.
struct PlainSource {
  const char* base[2];   // of K and V
  const char* table[2];  // the sequence's page ids; null: one page, which base includes
  int shift;             // page size = 1 << shift
  bool simple;
};
inline PlainSource plain_source(const AttentionStart& s, const PlainSequence& r, int kv_head, int v_dim) {
  constexpr int kPages = static_cast<int>(Column::pages);
  const bool offsets = given(s, Column::kv_offsets), paged = given(s, Column::pages);
  const i64_t offset = offsets ? entry_at(s, Column::kv_offsets, r.b) : 0;
  PlainSource source;
  source.shift = s.page_shift;
#pragma unroll
  for (int side = 0; side < 2; ++side) {
    source.base[side] = s.base[side] + kv_head * s.head[side];
    source.table[side] = nullptr;
    if (paged) {
      const IndexColumn& column = s.column[kPages + side];
      source.table[side] = column.data + (offsets ? offset * s.page_id[side] : r.b * column.stride);
    } else {
      source.base[side] += offsets ? offset * s.token[side] : r.b * s.page[side];
    }
  }
  if (!kVInK) source.base[1] += v_dim * (kV8 ? 1 : 2);
  source.simple = s.simple && s.d_k == config::d_main && (kVInK || s.d_v - v_dim >= config::d_v);
  return source;
}

// The page of key t (all lanes the same), or -1.
inline i64_t plain_page(const AttentionStart& s, const PlainSource& source, int side, int t) {
  const char* entry = source.table[side] + (t >> source.shift) * s.page_id[side];
  const bool wide = (s.wide >> (static_cast<int>(Column::pages) + side) & 1) != 0;
  const i64_t page = wide ? load<i64_t>(entry) : load<i32_t>(entry);
  return static_cast<u64_t>(page) < static_cast<u64_t>(s.page_count) ? page : -1;
}

// The pages of the keys that a warp copies next.
struct PlainNext {
  i64_t page[2];  // -1: there is none
  bool exists() const { return (page[0] | page[1]) >= 0; }
};
inline PlainNext plain_next(const AttentionStart& s, const PlainSource& source, int key, Keys keys) {
  // Where pages are not simple they are no power of two either, and the table would be read past its end.
  if (!source.simple || source.table[0] == nullptr || key >= keys.hi || key + 16 <= keys.lo) return {{0, 0}};
  const int t = max(key, keys.lo);
  PlainNext next;
  next.page[0] = plain_page(s, source, 0, t);
  next.page[1] = kVInK || source.table[0] == source.table[1] ? next.page[0] : plain_page(s, source, 1, t);
  return next;
}

// Starts copying rows of one side, `keys` of them from `from` on, which is token_stride apart from the next. Those
// outside [lo, hi) become zeros, where not all are there.
template <class Rows, int keys, bool all>
inline void copy_plain_rows(unsigned to, const char* from, i64_t token_stride, int lo, int hi) {
  if (all && !family::kAsync) {
    move_even_rows<Rows, keys>(to, from, token_stride);
    return;
  }
  constexpr int kLanes = lanes_per_row(Rows::kChunks), kRows = 32 / kLanes;
  const int lane = lane_id(), row = lane / kLanes, chunk = lane % kLanes;
  to += row * Rows::kStride + chunk * 16;
  from += row * token_stride + chunk * 16;
#pragma unroll
  for (int i = 0; i < keys; i += kRows, from += kRows * token_stride) {
    if (keys % kRows != 0 && i + row >= keys) continue;
    const int exist = all || (i + row >= lo && i + row < hi) ? 16 : 0;
#pragma unroll
    for (int c = 0; c < Rows::kChunks; c += kLanes) {
      if (Rows::kChunks % kLanes != 0 && c + chunk >= Rows::kChunks) continue;
      family::copy_16(to + i * Rows::kStride + c * 16, from + c * 16, exist);
    }
  }
}

// Where the kOwned keys are that a warp copies, of a simple source.
struct OwnedRows {
  const char* k;
  const char* v;
};
// Without pages.
inline OwnedRows owned_rows(const AttentionStart& s, const PlainSource& source, int key) {
  return {source.base[0] + key * s.token[0], kVInK ? nullptr : source.base[1] + key * s.token[1]};
}
inline OwnedRows owned_rows(const AttentionStart& s, const PlainSource& source, int key, const PlainNext& at) {
  const i64_t offset = source.table[0] == nullptr ? key : key & ((1 << source.shift) - 1);
  return {source.base[0] + at.page[0] * s.page[0] + offset * s.token[0],
          kVInK ? nullptr : source.base[1] + at.page[1] * s.page[1] + offset * s.token[1]};
}

// Starts copying them: all, or those of [lo, hi) alone; the others become zeros.
template <bool all, class Stage>
inline void copy_owned_rows(const AttentionStart& s, const OwnedRows& from, Stage& stage, int owner, int lo = 0,
                            int hi = Stage::kOwned) {
  constexpr int kOwned = Stage::kOwned;
  copy_plain_rows<KRows, kOwned, all>(shared_address(stage.k) + owner * kOwned * KRows::kStride, from.k, s.token[0], lo,
                                      hi);
  if constexpr (kVInK) return;
  copy_plain_rows<VRows, kOwned, all>(shared_address(stage.v) + owner * kOwned * VRows::kStride, from.v, s.token[1], lo,
                                      hi);
}

// Starts copying the kOwned keys from `key` on that this warp owns, of a simple source; `keys`: those that some row of
// the block sees.
template <class Stage>
inline void copy_simple_keys(const AttentionCudaArgs& g, const PlainSource& source, Stage& stage, int owner, int key,
                             Keys keys, const PlainNext& at) {
  constexpr int kOwned = Stage::kOwned;
  static_assert(16 % kOwned == 0);
  const OwnedRows from = owned_rows(g.start, source, key, at);
  if (at.exists() && key >= keys.lo && key + kOwned <= keys.hi) {
    copy_owned_rows<true>(g.start, from, stage, owner);
    if (lane_id() == 0) stage.bad[owner] = 0;
    return;
  }
  const int lo = min(max(keys.lo - key, 0), kOwned), hi = max(min(keys.hi - key, kOwned), lo);
  const int last = at.exists() ? hi : lo;
  copy_owned_rows<false>(g.start, from, stage, owner, lo, last);
  if (lane_id() == 0) {
    stage.bad[owner] = static_cast<unsigned short>(((1u << hi) - 1) & ~((1u << last) - 1));
    if (last != hi) report_status(g.status, StatusCode::invalid_value);
  }
}
// Of any source.
template <class Stage>
inline void copy_plain_keys(const AttentionCudaArgs& g, const PlainSource& source, const KeySource& any_source,
                            Stage& stage, int owner, int key, Keys keys, const PlainNext& at, const RowBytes& bytes) {
  if (source.simple) {
    copy_simple_keys(g, source, stage, owner, key, keys, at);
  } else {
    copy_keys(stage, owner, find_key<Stage>(any_source, key), bytes, false, g.status);
  }
}

// One step of a warp. `mine`: the keys of row lane % kWarpRows.
template <class Stage>
inline void attend_plain(bool by_key, const StepRules& rules, const Stage& stage, unsigned q, int key, const Keys& mine,
                         const Keys& every, int v_dim, Output& o, RowState& state) {
  Scores scores;
  multiply_qk(scores, q, stage);
  if constexpr (config::d_rope > 0) {
    if (rules.k_scale != 1.0f) scale_columns(scores, rules.k_scale, false, stage);
    multiply_rope(scores, q, stage);
  }
  if (rules.transform) scale_scores(scores, rules.logit_scale * kLog2e);
  const bool bad = stage.any_bad();
  if (key < every.lo || key + kKeys > every.hi || bad) {
    apply_mask(scores, interval_bits({mine.lo - key, mine.hi - key}) & (bad ? ~stage.bad_keys() : ~u64_t{0}));
  }
  softmax(scores, o, state, rules.to_log2, rules.may_fuse);
  if (by_key) {
    multiply_pv_by_key(o, scores, stage, v_dim);
  } else {
    multiply_pv(o, scores, stage, v_dim);
  }
}

}  // namespace fovea
