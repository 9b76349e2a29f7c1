// SPDX-License-Identifier: Apache-2.0
// attention: what a plan is made from, the block a kernel receives, and the reading of one request. Freestanding.
#pragma once

#include "shared/kv/cache.h"
#include "shared/mask/bits.h"
#include "shared/mask/interval.h"

namespace fovea {

inline constexpr int kMaxSegments = 3;
inline constexpr int kMaxHeadDim = 576;

struct AttentionSpec {
  Dtype q = Dtype::none;
  Dtype out = Dtype::none;
  int padded = 0;  // Q is [batch, tokens, heads, d]
  int has_lse = 0;
  int has_q_lens = 0;
  int has_q_starts = 0;
  int has_bits = 0;
  int alibi_rank = 0;  // 0 = none
  int has_sinks = 0;
  i64_t batch = 0;      // the most a run may have
  i64_t tokens = 0;     // of Q: in all, or per sequence where padded; the most a run may have
  i64_t max_q_len = 0;  // the most queries of one sequence
  int heads = 0;
  int group = 0;  // heads per kv head
  float scale = 1;
  float q_scale = 1;
  float out_scale = 1;
  float softcap = 0;
  MaskSpec mask;
  int split_size = 0;  // keys, as asked for
  int batch_invariant = 0;
  int chunk_invariant = 0;
  int kernel = -1;  // row of the kernel table that the caller forces
  int segments = 1;
  KvSpec kv[kMaxSegments];
  bool operator==(const AttentionSpec&) const = default;
};

struct AttentionArgs {
  AttentionSpec spec;
  View q;                  // [batch or 1, tokens, heads, d_k]
  View out;                // [batch or 1, tokens, heads, d_v]
  View lse;                // [batch or 1, tokens, heads]
  IndexView cu_seqlens_q;  // [batch + 1]
  IndexView q_lens;        // [batch]
  IndexView q_starts;      // [batch]
  View mask_bits;          // [batch or 1, tokens, words]
  IndexView mask_lens;     // [batch]
  IndexView alibi_slopes;  // [batch or 1, heads]
  IndexView sinks;         // [heads]
  KvView kv[kMaxSegments];
};

// How rows and keys are cut. A row is one query of one head; rows of a sequence and kv head are counted as
// query * group + head, and cut into blocks. Keys are cut into tiles of kTileKeys from the first token that this rank
// holds of each segment, and tiles into splits: neither depends on lengths, batch or capacity.
struct AttentionTiles {
  int block_rows = 0;    // multiple of 16
  int chunk_keys = 0;    // keys converted at a time
  i64_t split_keys = 0;  // multiple of kTileKeys
  i64_t max_splits = 0;  // over all segments of a sequence, at the planned lengths
  int partials = 0;      // 1: one task per split, partial results in scratch
  bool operator==(const AttentionTiles&) const = default;
};

// The kernel's buffers in f32, all on the stack of a task (threads of a caller's pool may have small stacks): Q by
// columns, logits of a tile, two outputs (of the sequence so far and of the split), and a chunk of converted keys.
inline constexpr int kBlockRowStep = 16;  // the widest vector's lanes
inline constexpr int kMaxBlockRows = 64;
inline constexpr i64_t kBufferFloats = 33 * 1024;
// A block of so few rows has keys in lanes, and turns a part of a tile's keys in the buffer of converted ones.
inline constexpr int kFewRows = 8;
inline constexpr i64_t kTurnedFloats = i64_t{64} * kTileKeys;
constexpr i64_t attention_padded(i64_t d) {
  return (d + kBlockRowStep - 1) / kBlockRowStep * kBlockRowStep;
}
constexpr i64_t attention_buffer_floats(i64_t rows, i64_t chunk_keys, i64_t d_k, i64_t d_v) {
  return rows * (d_k + kTileKeys + 2 * attention_padded(d_v)) + chunk_keys * attention_padded(at_least(d_k, d_v)) +
         kBlockRowStep;  // a last vector may be stored past its row
}
static_assert(attention_buffer_floats(kBlockRowStep, 8, kMaxHeadDim, kMaxHeadDim) <= kBufferFloats);
static_assert(attention_buffer_floats(kBlockRowStep, 0, kMaxHeadDim, kMaxHeadDim) + kTurnedFloats <= kBufferFloats);

// One sequence of a call.
struct AttentionRequest {
  i64_t b = 0;
  i64_t batch_row = 0;  // first index of q's view
  i64_t first = 0;      // token index of q's view where the sequence's rows begin
  i64_t tokens = 0;     // rows there, in use or not
  i64_t active = 0;     // the first row in use
  i64_t q_len = 0;      // rows in use
  i64_t len = 0;        // keys over all segments and ranks
  i64_t mask_len = 0;
  struct Segment {
    i64_t offset = 0;  // position of its first token
    Interval seen;     // tokens of the segment that may be seen
    i64_t held = 0;    // tokens on this rank
  } segment[kMaxSegments];
};

inline AttentionRequest attention_request(const AttentionArgs& a, i64_t b) {
  AttentionRequest r;
  r.b = b;
  if (a.spec.padded) {
    r.batch_row = b;
    r.tokens = a.spec.tokens;
    r.active = a.q_starts.given() ? index_at(a.q_starts, b) : 0;
    r.q_len = a.q_lens.given() ? index_at(a.q_lens, b) : r.tokens - r.active;
  } else {
    r.first = index_at(a.cu_seqlens_q, b);
    r.tokens = index_at(a.cu_seqlens_q, b + 1) - r.first;
    r.q_len = r.tokens;
  }
  for (int s = 0; s < a.spec.segments; ++s) {
    const i64_t len = kv_len(a.kv[s], b);
    r.segment[s] = {r.len, {kv_start(a.kv[s], b), len}, shard_count(a.spec.kv[s].shard, len)};
    r.len += len;
  }
  if (a.mask_lens.given()) r.mask_len = index_at(a.mask_lens, b);
  return r;
}

// The keys that row `token` sees by the interval mask alone, as positions; empty for a row not in use.
inline i64_t attention_position(const AttentionRequest& r, i64_t token) {
  return r.len - r.q_len + (token - r.active);
}
inline Interval attention_interval(const AttentionArgs& a, const AttentionRequest& r, i64_t token) {
  if (token < r.active || token >= r.active + r.q_len) return {};
  return mask_interval(a.spec.mask, attention_position(r, token), r.len);
}

// The same interval in the tokens of segment s that this rank holds.
inline Interval attention_held(const AttentionArgs& a, const AttentionRequest& r, int s, Interval positions) {
  const AttentionRequest::Segment& g = r.segment[s];
  const Interval seen = intersect({positions.lo - g.offset, positions.hi - g.offset}, g.seen);
  if (seen.empty()) return {};
  return {shard_count(a.spec.kv[s].shard, seen.lo), shard_count(a.spec.kv[s].shard, seen.hi)};
}

// The position of held token u of segment s.
inline i64_t attention_key_position(const AttentionArgs& a, const AttentionRequest& r, int s, i64_t u) {
  return r.segment[s].offset + shard_token(a.spec.kv[s].shard, u);
}

// Bit k: does the row see held token first + k of segment s, by interval and packed bits?
inline u64_t attention_visible(const AttentionArgs& a, const AttentionRequest& r, int s, i64_t token, Interval held,
                               i64_t first) {
  u64_t seen = interval_bits({held.lo - first, held.hi - first});
  if (seen == 0 || !a.mask_bits.given()) return seen;
  const char* row_bits = row(a.mask_bits, r.batch_row, r.first + token);
  const i64_t words = a.mask_bits.shape[2];
  const i64_t bits_begin = r.len - r.mask_len;  // position of bit 0
  if (a.spec.kv[s].shard.world == 1) {
    return seen & packed_bits(row_bits, words, attention_key_position(a, r, s, first) - bits_begin);
  }
  for (int k = 0; k < kTileKeys; ++k) {
    if (!(seen >> k & 1)) continue;
    const i64_t bit = attention_key_position(a, r, s, first + k) - bits_begin;
    if (!(packed_bits(row_bits, words, bit) & 1)) seen &= ~(u64_t{1} << k);
  }
  return seen;
}

}  // namespace fovea
