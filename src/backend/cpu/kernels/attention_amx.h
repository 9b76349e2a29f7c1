// SPDX-License-Identifier: Apache-2.0
// Products of bf16 by AMX tiles: 16 rows of 64 bytes each, TDPBF16PS (Intel SDM volume 2). Sums are f32; subnormal
// inputs and results count as 0.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "shared/params/attention.h"

// Is this compiler able to make them? Whether the processor can run them is amx_usable()'s answer.
#if defined(__x86_64__) && defined(__linux__) && (defined(__clang__) ? __clang_major__ >= 12 : __GNUC__ >= 11)
#define FOVEA_CPU_AMX 1
#else
#define FOVEA_CPU_AMX 0
#endif

namespace fovea::cpu {

// Has the processor AMX with bf16, and does Linux let this process use it? Asks for that permission, once.
bool amx_usable();

inline constexpr int kAmxRows = 16;          // of a tile
inline constexpr int kAmxDepth = 32;         // bf16 of a row: elements that one instruction sums over
inline constexpr size_t kAmxElements = 512;  // bf16 of a whole tile, 1 KiB

constexpr i64_t amx_padded(i64_t d) {
  return (d + kAmxDepth - 1) / kAmxDepth * kAmxDepth;
}
// Rows are taken by two tiles of them: what they need of a tile of keys stays in the first cache.
inline constexpr int kAmxPair = 2 * kAmxRows;
inline constexpr int kAmxDims = 64;  // of V at a time: their sums take the place of logits
static_assert(kAmxDims <= kTileKeys);

// The buffers of a block in f32, each of which serves the f32 form as well: Q, behind its tiles weights and logits of a
// pair of row tiles; two outputs; K that had to be copied (f32: logits); V by pairs of keys (f32: converted rows).
constexpr i64_t amx_query_floats(i64_t rows, i64_t d_k) {
  return at_least(rows * d_k, rows * amx_padded(d_k) / 2 + kAmxPair * (kTileKeys / 2 + kTileKeys));
}
constexpr i64_t amx_key_floats(i64_t rows, i64_t d_k) {
  return kTileKeys * at_least(rows, amx_padded(d_k) / 2);
}
constexpr i64_t amx_value_floats(i64_t d_k, i64_t d_v) {
  return at_least(kTileKeys / 2 * attention_padded(d_v), 16 * attention_padded(at_least(d_k, d_v)) + kBlockRowStep);
}
constexpr i64_t amx_buffer_floats(i64_t rows, i64_t d_k, i64_t d_v) {
  return amx_query_floats(rows, d_k) + 2 * rows * attention_padded(d_v) + amx_key_floats(rows, d_k) +
         amx_value_floats(d_k, d_v);
}

#if FOVEA_CPU_AMX

// Before and after the calling thread's use of tile registers, which is not kept between tasks: while they are in use,
// each switch of threads saves 8 KiB more.
void amx_begin();
void amx_end();

struct AmxKeys {
  const char* p;     // 16 rows of bf16
  ptrdiff_t stride;  // bytes
};

// x[j][r] = sum_i k[j][i] q[i][r] for count (1 or 2) times 16 keys j, row_tiles (1 or 2) times 16 rows r and i below
// steps * 32. q: tiles [row_tiles, steps], each [16 pairs of dims, 16 rows, 2]; x: [count * 16, kAmxPair].
void amx_scores(const AmxKeys* k, int count, const uint16_t* q, int steps, int row_tiles, float* x);

// sums[r][i] = sum_j w[r][j] v[j][i] for row_tiles (1 or 2) times 16 rows, dim_tiles (up to 4) times 16 dims and the
// keys [32 first, 32 last) of 64. w: tiles [row_tiles, 2], each [16 rows, 32 keys]; v: tiles [dim_tiles, 2], each
// [16 pairs of keys, 16 dims, 2]; sums: [kAmxPair, kAmxDims].
void amx_values(const uint16_t* w, const uint16_t* v, int first, int last, int row_tiles, int dim_tiles, float* sums);

#endif

}  // namespace fovea::cpu
