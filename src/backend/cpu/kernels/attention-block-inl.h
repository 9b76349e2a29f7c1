// SPDX-License-Identifier: Apache-2.0
// A block of rows and what it sees of a tile of keys. Included once per Highway target.
#if defined(FOVEA_CPU_ATTENTION_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_CPU_ATTENTION_BLOCK_INL_H_
#undef FOVEA_CPU_ATTENTION_BLOCK_INL_H_
#else
#define FOVEA_CPU_ATTENTION_BLOCK_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/kernels/attention-kv-inl.h"
#include "backend/cpu/kernels/attention.h"
#include "backend/cpu/kernels/convert-inl.h"
#include "backend/cpu/kernels/grid-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::cpu {
namespace HWY_NAMESPACE {

constexpr float kNone = -__builtin_inff();

// Running state of a block's rows.
struct State {
  float* o;  // [rows, o_stride]
  alignas(64) float top[kMaxBlockRows];
  alignas(64) float sum[kMaxBlockRows];
};

struct Block {
  const AttentionArgs& args;
  const AttentionTiles& tiles;
  const AttentionTask& task;
  bool by_keys;     // lanes of logits are keys, not rows
  bool amx;         // q, weights and converted are tiles of bf16
  int rotated;      // dims of q that are rotated
  size_t stride;    // rows rounded up to whole vectors
  size_t o_stride;  // floats
  float* q;
  float* small_q;  // q * kSmallE4m3, where that serves; else null
  float* x;
  float* converted;
  uint16_t* weights;                 // amx, of a pair of row tiles: [2, 2 steps of 32 keys]
  float* logits;                     // amx, of a pair of row tiles: [64, kAmxPair]
  Interval interval[kMaxBlockRows];  // positions that a row sees
  i64_t position[kMaxBlockRows];     // of a row
  alignas(64) float slope[kMaxBlockRows];
  alignas(64) float decay[kMaxBlockRows];  // of the current tile

  // Where the logit of key j and row r lies in x: [64, stride], or by keys [rows, 64].
  size_t key_step() const { return by_keys ? 1 : stride; }
  size_t row_step() const { return by_keys ? kTileKeys : 1; }

  i64_t token(int r) const { return (task.first_row + r) / args.spec.group; }
  i64_t head(int r) const { return task.kv_head * args.spec.group + (task.first_row + r) % args.spec.group; }
};

// One tile, and what the rows of a block see of it.
struct Tile {
  int segment;
  i64_t first;     // held token of the segment
  int begin, end;  // keys that some row sees lie in [begin, end)
  u64_t any;       // seen by some row
  bool uniform;    // every row sees all of [begin, end)
  u64_t seen[kMaxBlockRows];
  alignas(64) uint32_t low[kMaxBlockRows], high[kMaxBlockRows];  // halves of seen
  alignas(64) float key_scale[kTileKeys], value_scale[kTileKeys];
  const char* rows[kTileKeys];    // of K, then of V
  const char* second[kTileKeys];  // of grids: of their second planes
  // By keys: where all tokens of this tile and of the one after it lie, by turns. `known` says whether those of this
  // tile were looked up.
  struct Places {
    const char* keys[kTileKeys];
    const char* values[kTileKeys];
  } places[2];
  int now = 0;
  bool known = false;
};

float ScalarOf(const char* p, Dtype t) {
  return float_at(p, t);
}

// Can factors of at most this magnitude be multiplied by kSmallE4m3?
inline bool StaysFinite(float most) {
  return most * kSmallE4m3 <= std::numeric_limits<float>::max();
}

// ---- Q ----

// rotated: how many dims of a key are codes on a grid, 0 for none. Q turns as they do, and grows by sqrt(rotated),
// which their scales make up for.
void PackQueries(Block& k, int rotated) {
  const AttentionRequest& request = k.task.request;
  k.rotated = rotated;
  const i64_t d = k.args.spec.kv[0].d_k;
  for (size_t i = 0; i < static_cast<size_t>(d) * k.stride; ++i) k.q[i] = 0;
  for (int r = 0; r < k.task.rows; ++r) {
    if (k.interval[r].empty()) continue;
    Convert(k.args.q.dtype, row(k.args.q, request.batch_row, request.first + k.token(r), k.head(r)), d, 1.0f,
            k.converted);
    if (rotated > 0) RotateVector(*find_rotation(rotated), k.converted);
    for (i64_t i = 0; i < d; ++i) k.q[static_cast<size_t>(i) * k.stride + static_cast<size_t>(r)] = k.converted[i];
  }
  if (k.small_q == nullptr) return;
  const F32Tag tag;
  F32Vec most = hn::Zero(tag);
  for (size_t i = 0; i < static_cast<size_t>(d) * k.stride; i += hn::Lanes(tag)) {
    const F32Vec q = hn::Load(tag, k.q + i);
    most = hn::Max(most, hn::IfThenZeroElse(hn::IsNaN(q), hn::Abs(q)));
    hn::Store(hn::Mul(q, hn::Set(tag, kSmallE4m3)), tag, k.small_q + i);
  }
  if (!StaysFinite(hn::GetLane(hn::MaxOfLanes(tag, most)))) k.small_q = nullptr;
}

void DescribeRows(Block& k) {
  const AttentionArgs& a = k.args;
  for (int r = 0; r < k.task.rows; ++r) {
    k.interval[r] = attention_interval(a, k.task.request, k.token(r));
    k.position[r] = attention_position(k.task.request, k.token(r));
  }
  for (int r = 0; r < static_cast<int>(k.stride); ++r) k.slope[r] = 0;
  if (!a.alibi_slopes.given()) return;
  for (int r = 0; r < k.task.rows; ++r) {
    k.slope[r] = ScalarOf(row(a.alibi_slopes, a.alibi_slopes.shape[0] == 1 ? 0 : k.task.request.b, k.head(r)),
                          a.alibi_slopes.dtype);
  }
}

// ---- what a tile's rows see ----

// Fills the tile's visibility; false where no row sees any of its keys. held: per row, tokens of the segment; common:
// those that every row sees by interval.
bool LookAtTile(const Block& k, const Interval* held, Interval common, Tile& tile) {
  const int rows = k.task.rows;
  if (!k.by_keys && !k.args.mask_bits.given() && common.lo <= tile.first && tile.first + kTileKeys <= common.hi) {
    tile.any = ~u64_t{0};
    tile.begin = 0;
    tile.end = kTileKeys;
    tile.uniform = true;
    return true;
  }
  tile.any = 0;
  for (int r = 0; r < rows; ++r) {
    // Rows of one query differ in their head only.
    const bool same = r > 0 && k.token(r) == k.token(r - 1);
    tile.seen[r] = same ? tile.seen[r - 1]
                        : attention_visible(k.args, k.task.request, tile.segment, k.token(r), held[r], tile.first);
    tile.any |= tile.seen[r];
  }
  if (tile.any == 0) return false;
  tile.begin = __builtin_ctzll(tile.any);
  tile.end = kTileKeys - __builtin_clzll(tile.any);
  tile.uniform = tile.any == interval_bits({tile.begin, tile.end});
  for (int r = 0; r < rows; ++r) tile.uniform &= tile.seen[r] == tile.any;
  if (tile.uniform) return true;
  for (int r = 0; r < static_cast<int>(k.stride); ++r) {
    const u64_t seen = r < rows ? tile.seen[r] : 0;
    tile.low[r] = static_cast<uint32_t>(seen);
    tile.high[r] = static_cast<uint32_t>(seen >> 32);
  }
  return true;
}

// Looks up where the tile after this one lies, below token `end` of the segment.
void LookAhead(const TileSide& keys, const TileSide& values, i64_t end, Tile& tile) {
  Tile::Places& next = tile.places[1 - tile.now];
  PointAhead(keys, tile.first + kTileKeys, end, next.keys);
  PointAhead(values, tile.first + kTileKeys, end, next.values);
}

// Where the vectors of tokens [begin, end) lie, zeros where no row sees one. places: of all tokens.
const char* const* PointAtTile(const TileSide& side, const char* const* places, int begin, int end, Tile& tile) {
  if (!tile.known || !tile.uniform) {
    PointAtRows(side, tile.first, begin, end, tile.any, tile.rows);
    return tile.rows;
  }
  if (begin >= tile.begin && end <= tile.end) return places;
  for (int k = begin; k < end; ++k) {
    const bool seen = k >= tile.begin && k < tile.end;
    tile.rows[k] = seen ? places[k] : reinterpret_cast<const char*>(kZeroRow);
  }
  return tile.rows;
}

// tile.second of a grid with two planes, for tokens [begin, end).
void PointAtSecondPlanes(const TileSide& side, int begin, int end, Tile& tile) {
  if (!side.has_second()) return;
  for (int k = begin; k < end; ++k) tile.second[k] = reinterpret_cast<const char*>(kZeroRow);
  ForSeen(side, tile.first, begin, end, tile.any,
          [&](int k, KvSlot slot) HWY_ATTR { tile.second[k] = kv_address(side.second, slot, side.head); });
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::cpu
HWY_AFTER_NAMESPACE();

#endif
