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

inline PlainSequence plain_sequence(const AttentionCudaArgs& g, int b, int first, int tokens) {
  const AttentionArgs& a = g.a;
  const KvView& kv = a.kv[0];
  PlainSequence r = {.b = b, .first = first, .tokens = tokens, .active = 0, .q_len = tokens};
  constexpr i64_t kMost = i64_t{1} << 30;
  const i64_t len = kv_len(kv, b), start = kv_start(kv, b);
  bool wrong = false;
  if (a.spec.padded) {
    if (a.q_starts.given()) r.active = static_cast<int>(clamp(index_at(a.q_starts, b), 0, tokens));
    const i64_t rows = a.q_lens.given() ? index_at(a.q_lens, b) : tokens - r.active;
    r.q_len = static_cast<int>(clamp(rows, 0, tokens - r.active));
    wrong = r.q_len != rows;
  }
  i64_t most = at_most(kv_capacity(kv, b), kv.spec.max_len);
  if (kv.spec.layout == KvLayout::paged_csr) {
    const i64_t entry = index_at(kv.page_indptr, b), entries = kv.page_table.shape[0];
    most = entry < 0 || entry > entries ? 0 : at_most(most, (entries - entry) * kv.spec.page_size);
  } else if (kv.spec.layout == KvLayout::ragged) {
    const i64_t offset = index_at(kv.cu_seqlens_kv, b);
    most = offset < 0 ? 0 : at_most(most, kv.spec.page_size - offset);
  }
  r.len = static_cast<int>(clamp(len, 0, kMost));
  r.end = static_cast<int>(clamp(len, 0, at_least(most, 0)));
  r.start = static_cast<int>(clamp(start, 0, kMost));
  if (wrong || r.end != len) report_status(g.status, StatusCode::invalid_value);
  return r;
}

// [lo, hi): the keys that a row sees; 0, 0 for none.
struct Keys {
  int lo, hi;
};
inline Keys plain_keys(const AttentionArgs& a, const PlainSequence& r, int token) {
  constexpr i64_t kMost = i64_t{1} << 30;
  Band band;
  mask_band(a.spec.mask, band);
  const int p = r.len - r.q_len + token - r.active;
  const int lo = band.left < 0 ? 0 : p - static_cast<int>(at_most(band.left, kMost));
  const int hi = band.right < 0 ? r.end : static_cast<int>(at_most(p + at_most(band.right, kMost) + 1, r.end));
  const Keys keys = {max(lo, r.start), hi};
  const bool in_use = token >= r.active && token < r.active + r.q_len;
  return in_use && keys.lo < keys.hi ? keys : Keys{0, 0};
}

// What all rows of [first, first + count) see, and what any of them sees. Both bounds grow with the query; rows not in
// use see nothing.
struct RowsKeys {
  Keys every, any;
};
inline RowsKeys plain_rows_keys(const AttentionArgs& a, const PlainSequence& r, int first, int count) {
  const int group = a.spec.group;
  const int begin = first / group, last = (first + count - 1) / group;
  const int from = max(begin, r.active), to = min(last, r.active + r.q_len - 1);
  if (count <= 0 || from > to) return {{0, 0}, {0, 0}};
  const Keys low = plain_keys(a, r, from), high = plain_keys(a, r, to);
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
inline bool copy_plain_q(const AttentionCudaArgs& g, const PlainSequence& r, RowBlock rows, int kv_head, char* q) {
  const AttentionArgs& a = g.a;
  const int d = a.spec.kv[0].d_k;
  if (kParts != 1 || kK8 || config::d_rope > 0 || a.spec.q != kKind || g.q_align < 16 || d != config::d_main)
    return false;
  constexpr int kLanes = lanes_per_row(QRows::kChunks), kStep = kThreads / kLanes;
  const int group = a.spec.group, chunk = static_cast<int>(threadIdx.x) % kLanes;
  int n = static_cast<int>(threadIdx.x) / kLanes;
  int token = (rows.first + n) / group, head = rows.first + n - token * group;
  const int token_step = kStep / group, head_step = kStep - token_step * group;
  const unsigned to = shared_address(q) + n * QRows::kStride + chunk * 16;
  const char* base = element_address(a.q, (a.spec.padded ? r.b : 0) * a.q.stride[0] + r.first * a.q.stride[1] +
                                              kv_head * group * a.q.stride[2]) +
                     chunk * 16;
  const i64_t token_stride = a.q.stride[1] * 2, head_stride = a.q.stride[2] * 2;
#pragma unroll 4
  for (int i = 0; i < config::block_rows; i += kStep, n += kStep) {
    const bool exists = n < rows.count && token >= r.active && token < r.active + r.q_len;
    const char* from = base + token * token_stride + head * head_stride;
    if (config::block_rows % kStep == 0 || n < config::block_rows) {
#pragma unroll
      for (int c = 0; c < QRows::kChunks; c += kLanes) {
        if (QRows::kChunks % kLanes != 0 && c + chunk >= QRows::kChunks) continue;
        family::copy_16(to + i * QRows::kStride + c * 16, from + c * 16, exists ? 16 : 0);
      }
    }
    token += token_step;
    head += head_step;
    if (head >= group) head -= group, ++token;
  }
  return true;
}

// Out of the way of those that need none: a block that starts reads all instructions up to its steps.
__noinline__ void make_plain_q(const AttentionCudaArgs& g, const PlainSequence& r, RowBlock rows, int kv_head,
                               char* q) {
  bool any_factor;
  load_q(g, request_of(g.a, r), rows, kv_head, config::block_rows, q, nullptr, any_factor);
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
inline PlainSource plain_source(const AttentionCudaArgs& g, const PlainSequence& r, int kv_head, int v_dim) {
  const KvView& kv = g.a.kv[0];
  const bool csr = kv.spec.layout == KvLayout::paged_csr, paged = csr || kv.spec.layout == KvLayout::paged;
  PlainSource source;
  source.base[0] = kv.k.base + kv_head * kv.k.head_stride;
  source.base[1] = kv.v.base + kv_head * kv.v.head_stride;
  source.table[0] = source.table[1] = nullptr;
  source.shift = 31 - __clz(kv.spec.page_size);
  if (!kv.spec.v_in_k) source.base[1] += v_dim * (kV8 ? 1 : 2);
  if (paged) {
    const i64_t line = csr ? index_at(kv.page_indptr, r.b) : r.b;
    const IndexView& v_table = kv_v_table(kv);
    source.table[0] =
        static_cast<const char*>(kv.page_table.data) + line * kv.page_table.stride[0] * kv.page_table.block_bytes;
    source.table[1] = static_cast<const char*>(v_table.data) + line * v_table.stride[0] * v_table.block_bytes;
  } else {
    const bool ragged = kv.spec.layout == KvLayout::ragged;
    const i64_t page = ragged ? 0 : r.b, offset = ragged ? index_at(kv.cu_seqlens_kv, r.b) : 0;
    source.base[0] += page * kv.k.page_stride + offset * kv.k.token_stride;
    source.base[1] += page * kv.v.page_stride + offset * kv.v.token_stride;
  }
  const bool pages_simple = !paged || (kv.spec.page_size % 16 == 0 && __popc(kv.spec.page_size) == 1);
  source.simple = pages_simple && config::d_rope == 0 && g.k_align >= 16 && g.v_align >= 16 &&
                  kv.spec.d_k == config::d_main && (kVInK || kv.spec.d_v - v_dim >= config::d_v);
  return source;
}

// The page of key t (all lanes the same), or -1.
inline i64_t plain_page(const KvView& kv, const PlainSource& source, int side, int t) {
  const IndexView& table = side == 1 ? kv_v_table(kv) : kv.page_table;
  const i64_t at = (t >> source.shift) * table.stride[kv.spec.layout == KvLayout::paged_csr ? 0 : 1];
  const i64_t page = table.dtype == Dtype::i64 ? reinterpret_cast<const i64_t*>(source.table[side])[at]
                                               : reinterpret_cast<const int*>(source.table[side])[at];
  return static_cast<u64_t>(page) < static_cast<u64_t>(kv.pages) ? page : -1;
}

// The pages of the keys that a warp copies next.
struct PlainNext {
  i64_t page[2];
};
inline PlainNext plain_next(const KvView& kv, const PlainSource& source, int key, Keys keys) {
  // Where pages are not simple they are no power of two either, and the table would be read past its end.
  if (!source.simple || source.table[0] == nullptr || key >= keys.hi || key + 16 <= keys.lo) return {{0, 0}};
  const int t = max(key, keys.lo);
  PlainNext next;
  next.page[0] = plain_page(kv, source, 0, t);
  next.page[1] = kVInK ? next.page[0] : kv.v_page_table.given() ? plain_page(kv, source, 1, t) : next.page[0];
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

// Starts copying the kOwned keys from `key` on that this warp owns; `keys`: those that some row of the block sees.
template <class Stage>
inline void copy_plain_keys(const AttentionCudaArgs& g, const PlainSource& source, const KeySource& any_source,
                            Stage& stage, int owner, int key, Keys keys, const PlainNext& next, const RowBytes& bytes) {
  constexpr int kOwned = Stage::kOwned;
  static_assert(16 % kOwned == 0);
  const KvView& kv = g.a.kv[0];
  if (!source.simple) {
    copy_keys(stage, owner, find_key<Stage>(any_source, key), bytes, false, g.status);
    return;
  }
  const bool exists = (next.page[0] | next.page[1]) >= 0;
  const i64_t offset = source.table[0] == nullptr ? key : key & ((1 << source.shift) - 1);
  const unsigned k_to = shared_address(stage.k) + owner * kOwned * KRows::kStride;
  const unsigned v_to = shared_address(stage.v) + owner * kOwned * VRows::kStride;
  const char* k_from = source.base[0] + next.page[0] * kv.k.page_stride + offset * kv.k.token_stride;
  const char* v_from = source.base[1] + next.page[1] * kv.v.page_stride + offset * kv.v.token_stride;
  if (exists && key >= keys.lo && key + kOwned <= keys.hi) {
    copy_plain_rows<KRows, kOwned, true>(k_to, k_from, kv.k.token_stride, 0, kOwned);
    if constexpr (!kVInK) copy_plain_rows<VRows, kOwned, true>(v_to, v_from, kv.v.token_stride, 0, kOwned);
    if (lane_id() == 0) stage.bad[owner] = 0;
    return;
  }
  const int lo = min(max(keys.lo - key, 0), kOwned), hi = max(min(keys.hi - key, kOwned), lo);
  const int last = exists ? hi : lo;
  copy_plain_rows<KRows, kOwned, false>(k_to, k_from, kv.k.token_stride, lo, last);
  if constexpr (!kVInK) copy_plain_rows<VRows, kOwned, false>(v_to, v_from, kv.v.token_stride, lo, last);
  if (lane_id() == 0) {
    stage.bad[owner] = static_cast<unsigned short>(((1u << hi) - 1) & ~((1u << last) - 1));
    if (last != hi) report_status(g.status, StatusCode::invalid_value);
  }
}

// The same of keys that all exist, of one simple buffer without pages.
template <class Stage>
inline void copy_inner_keys(const KvView& kv, const PlainSource& source, Stage& stage, int owner, int key) {
  constexpr int kOwned = Stage::kOwned;
  copy_plain_rows<KRows, kOwned, true>(shared_address(stage.k) + owner * kOwned * KRows::kStride,
                                       source.base[0] + key * kv.k.token_stride, kv.k.token_stride, 0, kOwned);
  if constexpr (kVInK) return;
  copy_plain_rows<VRows, kOwned, true>(shared_address(stage.v) + owner * kOwned * VRows::kStride,
                                       source.base[1] + key * kv.v.token_stride, kv.v.token_stride, 0, kOwned);
}

// One step of a warp. `mine`: the keys of row lane % kWarpRows; `all_seen`: every row sees every key, and scores need
// no transform.
template <class Stage>
inline void attend_plain(bool by_key, bool all_seen, const StepRules& rules, const Stage& stage, unsigned q, int key,
                         const Keys& mine, const Keys& every, int v_dim, Output& o, RowState& state) {
  Scores scores;
  multiply_qk(scores, q, stage);
  if constexpr (config::d_rope > 0) {
    if (rules.k_scale != 1.0f) scale_columns(scores, rules.k_scale, false, stage);
    multiply_rope(scores, q, stage);
  }
  if (!all_seen) {
    if (rules.transform) scale_scores(scores, rules.logit_scale * kLog2e);
    const bool bad = stage.any_bad();
    if (key < every.lo || key + kKeys > every.hi || bad) {
      apply_mask(scores, interval_bits({mine.lo - key, mine.hi - key}) & (bad ? ~stage.bad_keys() : ~u64_t{0}));
    }
  }
  softmax(scores, o, state, rules.to_log2, rules.may_fuse);
  if (by_key) {
    multiply_pv_by_key(o, scores, stage, v_dim);
  } else {
    multiply_pv(o, scores, stage, v_dim);
  }
}

}  // namespace fovea
