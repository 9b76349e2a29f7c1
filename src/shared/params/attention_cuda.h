// SPDX-License-Identifier: Apache-2.0
// attention on CUDA: the parameters of its kernels, how work is cut, and where partial results lie. Freestanding.
//
// A row is one query of one head; the rows of a sequence and kv head are counted as query * group + head and cut into
// row blocks. A unit is one kv head and one part of d_v (parts of at most kMaxDvPart dims, each of which repeats the
// product with K). Keys are read in tiles of kTileKeys.
#pragma once

#include "shared/divider.h"
#include "shared/params/attention.h"

namespace fovea {

inline constexpr int kMaxDvPart = 256;

// How a launch cuts the keys of a row block.
enum class AttentionCut : int {
  whole = 0,  // one block of threads reads them all
  parts = 1,  // into `parts` runs of tiles of equal length, one block each; merged by attention_merge
  fixed = 2,  // at every `split_tiles`th tile of a segment, whatever the length; merged by attention_merge
  even = 3,   // the tiles of all row blocks form one line that is cut evenly; merged by the last block that ends
};

inline constexpr i64_t kMostKeys = i64_t{1} << 30;  // of a sequence, and rows per kv head: planning refuses more

// An index tensor by sequence: entry i is at data + i * stride bytes. Null: not given.
struct IndexColumn {
  const char* data = nullptr;
  i64_t stride = 0;
};
enum class Column : int { cu_seqlens_q, q_lens, q_starts, kv_lens, kv_starts, kv_offsets, pages, v_pages, count };

// What a block of a plain build asks before its first step, in few cache lines and few instructions: the same facts as
// AttentionArgs holds, of segment 0.
struct AttentionStart {
  // kv_offsets: page_indptr or cu_seqlens_kv. pages, v_pages: of a sequence; with page_indptr all begin at the same
  // place.
  IndexColumn column[static_cast<int>(Column::count)];
  i64_t page_id[2] = {};  // bytes from a page id to the next, of K and of V
  i64_t page_count = 0;   // in the pool
  i64_t limit = 0;        // with kv_offsets: the largest that one may be
  unsigned wide = 0;      // bit c: column c holds i64, otherwise i32
  int batch = 0;
  int tokens = 0;  // of Q: in all, or per sequence where padded
  int padded = 0;
  Divider group;  // heads per kv head
  int kv_heads = 0;
  int left = 0, right = 0;  // of the mask's band; open is as far as any key can be
  int capacity = 0;         // without kv_offsets: tokens that a sequence has memory for
  int unit = 1;             // with kv_offsets: tokens of an entry
  int max_len = 0;
  int page_size = 0, page_shift = -1;  // 1 << page_shift, or no power of two
  int simple = 0;  // K and V: rows are whole and aligned to 16 bytes, and 16 keys from a multiple of 16 lie in one page
  int q_simple = 0;  // Q: the same
  Dtype q_type = Dtype::none;
  int d_k = 0, d_v = 0;
  char* base[2] = {};  // of K and V, and bytes between heads, pages and tokens
  i64_t head[2] = {}, page[2] = {}, token[2] = {};
  char* q = nullptr;
  i64_t q_batch = 0, q_token = 0, q_head = 0;  // bytes
};

struct AttentionCudaArgs {
  AttentionStart start;
  float* pieces;      // partial results: see attention_piece_floats
  unsigned* arrived;  // [grid] counters of cut even, zero before and after
  u32_t* status;      // word that receives a sticky status; may be null
  i64_t slots;        // row blocks over all sequences that a run may have, empty ones included
  int least_rows;     // only sequences with more rows than this per kv head are served ..
  int most_rows;      // .. and with at most so many
  int parts;          // cut parts
  int split_tiles;    // cut fixed
  int max_splits;     // cut parts and fixed: pieces that a row block has room for
  int least_tiles;    // cut even: the least tiles of a block
  Divider blocks;     // cut even: blocks of the launch
  Divider together;   // prefill: units whose row blocks run together
  int q_align, out_align, k_align, v_align, rope_align;  // bytes that every row's address is a multiple of, at most 16
  AttentionArgs a;
};
static_assert(sizeof(AttentionCudaArgs) <= 4096, "the limit of a kernel's parameters");

// A piece: unnormalised output [rows][dims] under its own maximum, then maximum (in powers of two) and sum per row.
constexpr i64_t attention_piece_floats(int rows, int dims) {
  return static_cast<i64_t>(rows) * (dims + 2);
}

// How a kernel is built for some dims: its compile-time constants.
struct AttentionShape {
  int warps = 0;
  int m_tiles = 0;  // of 16 rows, in a warp
  int keys = 0;     // of a step, in a warp
  int stages = 0;   // of keys in shared memory
  int q_parts = 0;  // 2: f32 Q as the sum of two 16-bit values
  int v_in_k = 0;
  int q8 = 0, k8 = 0, v8 = 0;  // rows of bytes
  int d_main = 0;              // dims of K without its rope part, rounded up
  int d_rope = 0;              // rounded up
  int d_v = 0;                 // of one part of V, rounded up
  int decode = 0;  // 1: the warps share the rows and split the keys; 0: they share the keys and split the rows
  bool operator==(const AttentionShape&) const = default;
};
constexpr int attention_block_rows(const AttentionShape& s) {
  return (s.decode ? 1 : s.warps) * s.m_tiles * 16;
}
// Bytes of one key in a stage: its rows of K, rope and V, each 16 bytes longer than its elements, and two scales.
constexpr int attention_key_bytes(const AttentionShape& s) {
  const int k = s.d_main * (s.k8 ? 1 : 2) + 16, rope = s.d_rope > 0 ? s.d_rope * 2 + 16 : 0;
  const int v = s.v_in_k ? 0 : s.d_v * (s.v8 ? 1 : 2) + 16;
  return k + rope + v + 8;
}
// An upper bound of a kernel's shared memory, which its source asserts: Q, stages or decode's results, what prefill's
// rows need on their way out (and room for eight of them, where Q's rows of a warp leave none), and a little per row.
constexpr int attention_smem_bytes(const AttentionShape& s) {
  const int rows = attention_block_rows(s), q_row = (s.d_main + s.d_rope) * (s.q8 ? 1 : 2) + 16;
  const int stages = (s.decode ? s.warps : 1) * s.stages * (s.keys * attention_key_bytes(s) + 64);
  const int results = s.decode ? s.warps * rows * s.d_v * 4 : 0, eight = 8 * (s.d_v * 4 + 16);
  const int out = s.decode ? 0 : s.warps * (eight <= s.m_tiles * 16 * q_row ? 16 : eight);
  const int per_row = s.decode ? s.warps * (20 + 12) + 4 : 44;
  return s.q_parts * rows * q_row + (stages > results ? stages : results) + out + rows * per_row + 1152;
}

}  // namespace fovea
