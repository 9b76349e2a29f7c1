// SPDX-License-Identifier: Apache-2.0
// What the SM80 attention kernels share: the work of one block, and the tile steps of a warp.
//
// A block has kBlockRows rows of one sequence and kv head. A row is one query of one head; they are counted as
// query * group + head. Keys come in tiles of 64 in the order they are held. A warp works on kMTiles x 16 rows and
// kKeys keys of a tile at a time. Lane l: quad = l / 4, column = l % 4; it has rows quad and quad + 8 of each 16 and
// keys 2 column, 2 column + 1 of each 8.
//
// Constants of a build: kDk, kDv (head dims), kBlockRows, kWarps, kMTiles, kKeys, kKind (16-bit type of Q, K, V).
#pragma once

#include "ptx/convert.cuh"
#include "ptx/copy.cuh"
#include "ptx/matrix.cuh"
#include "shared/params/attention.h"

namespace fovea {

constexpr int round_up(int a, int b) {
  return (a + b - 1) / b * b;
}

constexpr float kLog2e = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;
constexpr unsigned kAllLanes = 0xFFFFFFFFu;
constexpr int kThreads = kWarps * 32;

inline float minus_infinity() {
  return __int_as_float(static_cast<int>(0xFF800000));
}

inline void mma(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  if constexpr (kKind == Dtype::bf16) {
    ptx::mma_m16n8k16_bf16(d, a, b0, b1);
  } else {
    ptx::mma_m16n8k16_f16(d, a, b0, b1);
  }
}
inline unsigned pack(float low, float high) {
  return kKind == Dtype::bf16 ? ptx::pack_bf16(low, high) : ptx::pack_f16(low, high);
}

// Rows of 16-bit elements in shared memory, padded by 16 bytes: a row is an odd number of 16-byte chunks, so the eight
// row addresses of a matrix fragment fall into different banks.
template <int dims>
struct SharedRows {
  static constexpr int kDims = round_up(dims, 16);
  static constexpr int kChunks = kDims / 8;       // of 16 bytes
  static constexpr int kStride = kDims * 2 + 16;  // bytes
};
using KRows = SharedRows<kDk>;
using VRows = SharedRows<kDv>;
constexpr int kKTiles = KRows::kDims / 16;
constexpr int kOTiles = VRows::kDims / 8;
constexpr int kNTiles = kKeys / 8;

// Where the keys of one segment of one sequence and kv head are: [0] of K, [1] of V. kv_locate and kv_address with all
// that does not depend on the key done once.
struct KeySource {
  const char* base[2];
  i64_t page_stride[2], token_stride[2];  // bytes
  const char* table[2];                   // the sequence's page ids; null = one page, which base includes
  i64_t table_stride;                     // bytes
  i64_t pages;
  int wide;                   // ids are i64
  int page_size, page_shift;  // page_size = 1 << page_shift, or page_shift < 0
};

// What one block works on; in shared memory, filled by all threads.
struct BlockWork {
  AttentionRequest request;
  KeySource source;
  int kv_head;
  int first_row;
  int rows;              // of the sequence and kv head
  int first;             // held token of the segment where tile 0 begins, a multiple of 64
  int lo, hi;            // keys that some row sees, relative to `first`
  int full_lo, full_hi;  // keys that every row in use sees
  int row_lo[kBlockRows], row_hi[kBlockRows];
};

// Finds the sequence and the rows of row block `index`; false past the end. Every warp does the same.
inline bool find_block(const AttentionArgs& a, i64_t index, i64_t& b, int& row_block) {
  const int group = a.spec.group;
  if (a.spec.padded) {
    const i64_t blocks = (a.spec.tokens * group + kBlockRows - 1) / kBlockRows;
    b = index / blocks;
    row_block = static_cast<int>(index % blocks);
    return b < a.spec.batch;
  }
  const int lane = threadIdx.x % 32;
  i64_t before = 0;
  for (i64_t first = 0; first < a.spec.batch; first += 32) {
    const i64_t mine = first + lane;
    i64_t blocks = 0;
    if (mine < a.spec.batch) {
      const i64_t tokens = index_at(a.cu_seqlens_q, mine + 1) - index_at(a.cu_seqlens_q, mine);
      blocks = (tokens * group + kBlockRows - 1) / kBlockRows;
    }
    i64_t sum = blocks;
    for (int step = 1; step < 32; step *= 2) {
      const i64_t other = __shfl_up_sync(kAllLanes, sum, step);
      if (lane >= step) sum += other;
    }
    const unsigned here = __ballot_sync(kAllLanes, before + sum > index);
    if (here != 0) {
      const int owner = __ffs(here) - 1;
      b = first + owner;
      row_block = static_cast<int>(index - __shfl_sync(kAllLanes, before + sum - blocks, owner));
      return true;
    }
    before += __shfl_sync(kAllLanes, sum, 31);
  }
  return false;
}

// The held tokens of segment s that the queries [first, last] of a sequence see, or a few more. Bounds grow with the
// query.
inline Interval visible_keys(const AttentionArgs& a, const AttentionRequest& r, int s, i64_t first, i64_t last) {
  first = at_least(first, r.active);
  last = at_most(last, r.active + r.q_len - 1);
  if (last < first) return {};
  return attention_held(a, r, s, {attention_interval(a, r, first).lo, attention_interval(a, r, last).hi});
}
// Tiles of 64 that cover them.
inline int tiles_of(Interval keys) {
  return keys.empty() ? 0 : static_cast<int>((keys.hi + kTileKeys - 1) / kTileKeys - keys.lo / kTileKeys);
}

inline void find_source(const KvView& kv, i64_t b, int kv_head, KeySource& source) {
  const bool csr = kv.spec.layout == KvLayout::paged_csr, paged = csr || kv.spec.layout == KvLayout::paged;
  const i64_t first_entry = csr ? index_at(kv.page_indptr, b) : 0;
  source.pages = kv.pages;
  source.page_size = kv.spec.page_size;
  source.page_shift = __popc(kv.spec.page_size) == 1 ? __ffs(kv.spec.page_size) - 1 : -1;
  source.wide = kv.page_table.dtype == Dtype::i64;
  source.table_stride = kv.page_table.stride[csr ? 0 : 1] * (source.wide ? 8 : 4);
#pragma unroll
  for (int side = 0; side < 2; ++side) {
    const KvStream& stream = side == 0 ? kv.k : kv.v;
    const View& table = side == 1 && kv.v_page_table.given() ? kv.v_page_table : kv.page_table;
    source.base[side] = stream.base + kv_head * stream.head_stride;
    source.page_stride[side] = stream.page_stride;
    source.token_stride[side] = stream.token_stride;
    source.table[side] = nullptr;
    if (paged) {
      source.table[side] = csr ? row(table, first_entry) : row(table, b);
    } else {
      const KvSlot slot = kv_locate(kv, table, b, 0);
      source.base[side] += slot.page * stream.page_stride + slot.offset * stream.token_stride;
    }
  }
}

// The keys of segment s that the block's rows see. `scratch` has an entry per warp and bound.
inline void enter_segment(const AttentionArgs& a, BlockWork& w, int s, int (&scratch)[2][kWarps]) {
  const int group = a.spec.group, last_row = min(w.first_row + kBlockRows, w.rows) - 1;
  const Interval any = visible_keys(a, w.request, s, w.first_row / group, last_row / group);
  const int first = static_cast<int>(any.lo) / kTileKeys * kTileKeys;
  int full_lo = 0, full_hi = 0x7FFFFFC0;
  for (int r = threadIdx.x; r < kBlockRows; r += kThreads) {
    const int index = w.first_row + r;
    Interval held;
    if (index < w.rows) held = attention_held(a, w.request, s, attention_interval(a, w.request, index / group));
    const int lo = held.empty() ? 0 : static_cast<int>(held.lo) - first;
    const int hi = held.empty() ? 0 : static_cast<int>(held.hi) - first;
    w.row_lo[r] = lo;
    w.row_hi[r] = hi;
    full_lo = max(full_lo, lo);
    full_hi = min(full_hi, hi);
  }
  full_lo = __reduce_max_sync(kAllLanes, full_lo);
  full_hi = __reduce_min_sync(kAllLanes, full_hi);
  if (threadIdx.x % 32 == 0) {
    scratch[0][threadIdx.x / 32] = full_lo;
    scratch[1][threadIdx.x / 32] = full_hi;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    find_source(a.kv[s], w.request.b, w.kv_head, w.source);
    w.first = first;
    w.lo = static_cast<int>(any.lo) - first;
    w.hi = any.empty() ? w.lo : static_cast<int>(any.hi) - first;
    for (int i = 1; i < kWarps; ++i) {
      full_lo = max(full_lo, scratch[0][i]);
      full_hi = min(full_hi, scratch[1][i]);
    }
    w.full_lo = full_lo;
    w.full_hi = full_hi;
  }
  __syncthreads();
}

// Address of key `key` (relative to `first`) of K or V, or null where no row sees it or its page does not exist.
inline const char* key_address(const BlockWork& w, int side, int key) {
  if (key < w.lo || key >= w.hi) return nullptr;
  const KeySource& source = w.source;
  const int t = w.first + key;
  if (source.table[side] == nullptr) return source.base[side] + t * source.token_stride[side];
  const int column = source.page_shift >= 0 ? t >> source.page_shift : t / source.page_size;
  const char* entry = source.table[side] + column * source.table_stride;
  const i64_t page = source.wide ? *reinterpret_cast<const i64_t*>(entry) : *reinterpret_cast<const int*>(entry);
  if (static_cast<u64_t>(page) >= static_cast<u64_t>(source.pages)) return nullptr;
  return source.base[side] + page * source.page_stride[side] +
         (t - column * source.page_size) * source.token_stride[side];
}

// Starts copying `keys` rows of `dims` elements; rows without an address, and dims past the last, become zeros.
template <class Rows, int dims, int keys, int threads>
inline void copy_rows(unsigned to, const char* const* addresses, int thread) {
#pragma unroll
  for (int i = thread; i < keys * Rows::kChunks; i += threads) {
    const int key = i / Rows::kChunks, chunk = i % Rows::kChunks;
    const char* from = addresses[key];
    const bool inside = from != nullptr && chunk * 8 < dims;
    ptx::copy_async_16(to + key * Rows::kStride + chunk * 16, from + chunk * 16, inside ? 16 : 0);
  }
}

using Scores = float[kMTiles][kNTiles][4];
using Output = float[kMTiles][kOTiles][4];
struct RowState {
  float top[kMTiles][2];  // running maximum, in the unit of the scores
  float sum[kMTiles][2];  // of this lane's keys
};

// Shared addresses that a lane reads fragments from: A rows of Q, B rows of K (keys 16 at a time), transposed V.
inline unsigned q_lane_offset(int lane) {
  return lane % 16 * KRows::kStride + lane / 16 * 16;
}
inline unsigned k_lane_offset(int lane) {
  return (lane % 8 + lane / 16 * 8) * KRows::kStride + lane / 8 % 2 * 16;
}
inline unsigned v_lane_offset(int lane) {
  return lane % 16 * VRows::kStride + lane / 16 * 16;
}

// S = Q K^T
inline void multiply_qk(Scores& s, unsigned q, unsigned k) {
#pragma unroll
  for (int i = 0; i < kMTiles; ++i) {
#pragma unroll
    for (int j = 0; j < kNTiles; ++j) s[i][j][0] = s[i][j][1] = s[i][j][2] = s[i][j][3] = 0;
  }
#pragma unroll
  for (int d = 0; d < kKTiles; ++d) {
    unsigned qf[kMTiles][4];
#pragma unroll
    for (int i = 0; i < kMTiles; ++i) ptx::load_matrix_x4(qf[i], q + i * 16 * KRows::kStride + d * 32);
#pragma unroll
    for (int j = 0; j < kNTiles / 2; ++j) {
      unsigned kf[4];
      ptx::load_matrix_x4(kf, k + j * 16 * KRows::kStride + d * 32);
#pragma unroll
      for (int i = 0; i < kMTiles; ++i) {
        mma(s[i][2 * j], qf[i], kf[0], kf[1]);
        mma(s[i][2 * j + 1], qf[i], kf[2], kf[3]);
      }
    }
  }
}

// O += P V
inline void multiply_pv(Output& o, const Scores& p, unsigned v) {
#pragma unroll
  for (int k = 0; k < kNTiles / 2; ++k) {
    unsigned pf[kMTiles][4];
#pragma unroll
    for (int i = 0; i < kMTiles; ++i) {
      pf[i][0] = pack(p[i][2 * k][0], p[i][2 * k][1]);
      pf[i][1] = pack(p[i][2 * k][2], p[i][2 * k][3]);
      pf[i][2] = pack(p[i][2 * k + 1][0], p[i][2 * k + 1][1]);
      pf[i][3] = pack(p[i][2 * k + 1][2], p[i][2 * k + 1][3]);
    }
#pragma unroll
    for (int j = 0; j < kOTiles / 2; ++j) {
      unsigned vf[4];
      ptx::load_matrix_x4_transposed(vf, v + k * 16 * VRows::kStride + j * 32);
#pragma unroll
      for (int i = 0; i < kMTiles; ++i) {
        mma(o[i][2 * j], pf[i], vf[0], vf[1]);
        mma(o[i][2 * j + 1], pf[i], vf[2], vf[3]);
      }
    }
  }
}

// Scores of keys that a row does not see become -inf. `row` is the lane's first row in the block, `key` its first key.
inline void mask_scores(const BlockWork& w, Scores& s, int row, int key) {
#pragma unroll
  for (int i = 0; i < kMTiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int lo = w.row_lo[row + i * 16 + h * 8] - key, hi = w.row_hi[row + i * 16 + h * 8] - key;
#pragma unroll
      for (int j = 0; j < kNTiles; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          if (j * 8 + e < lo || j * 8 + e >= hi) s[i][j][2 * h + e] = minus_infinity();
        }
      }
    }
  }
}

// Scores to probabilities under the running maximum; what was summed before shrinks with it. `to_log2` takes scores to
// powers of two. O is left alone where no row's maximum moved: the factor would be 1.
inline void softmax(Scores& s, Output& o, RowState& state, float to_log2) {
  float shrink[kMTiles][2];
  bool moved = false;
#pragma unroll
  for (int i = 0; i < kMTiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float top = state.top[i][h];
#pragma unroll
      for (int j = 0; j < kNTiles; ++j) top = fmaxf(top, fmaxf(s[i][j][2 * h], s[i][j][2 * h + 1]));
      top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 1));
      top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 2));
      const float shift = top == minus_infinity() ? 0.0f : top * to_log2;
      moved |= top != state.top[i][h];
      shrink[i][h] = ptx::exp2_approx(__fmaf_rn(state.top[i][h], to_log2, -shift));
      state.top[i][h] = top;
      float sum = 0;
#pragma unroll
      for (int j = 0; j < kNTiles; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const float p = ptx::exp2_approx(__fmaf_rn(s[i][j][2 * h + e], to_log2, -shift));
          s[i][j][2 * h + e] = p;
          sum += p;
        }
      }
      state.sum[i][h] = __fmaf_rn(state.sum[i][h], shrink[i][h], sum);
    }
  }
  if (!__any_sync(kAllLanes, moved)) return;
#pragma unroll
  for (int i = 0; i < kMTiles; ++i) {
#pragma unroll
    for (int j = 0; j < kOTiles; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) o[i][j][e] *= shrink[i][e / 2];
    }
  }
}

}  // namespace fovea
