// SPDX-License-Identifier: Apache-2.0
// Attention of a block of rows over tiles of 64 keys with a running softmax:
//
//   x = softcap(scale q k) - slope |p - j|, -inf where masked;   m' = max(m, max x);   w = e^(x - m')
//   l = l e^(m - m') + sum w;   o = o e^(m - m') + w v;   out = o / l;   lse = m + ln l
//
// Rows of a block are (query, head of the group), so that the heads of a group share what is loaded of K and V. Logits
// lie as [key, row]: maxima, exponentials and sums run down the keys with rows in lanes. A block of few rows would
// leave lanes idle: it has keys in lanes, logits lie as [row, key] (by_keys), and its bits are the same. Splits of the
// keys have sums of their own, merged in ascending order. A row's bits depend on its own keys alone: a tile it does not
// see leaves m, l and o as they were, and so does a masked key.
//
// Buffers, f32, on the stack (attention_buffer_floats):
//   q [d_k, rows]   x [64, rows]   o of the sequence, o of the split [rows, d_v]
//   converted keys [chunk, max d], or turned ones [64, 64]
// With AMX (attention-amx-inl.h) Q and K or V of a tile are bf16 there, and so are weights beside x
// (attention_amx_floats).
#include "backend/cpu/kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/attention.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "backend/cpu/kernels/attention-amx-inl.h"
#include "backend/cpu/kernels/attention-block-inl.h"
#include "backend/cpu/kernels/attention-keys-inl.h"
#include "backend/cpu/kernels/attention-kv-inl.h"
#include "backend/cpu/kernels/attention-softmax-inl.h"
#include "backend/cpu/kernels/attention-tile-inl.h"
#include "backend/cpu/kernels/convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::cpu {
namespace HWY_NAMESPACE {

// ---- x = q k ----

void TileScores(const Block& k, const TileSide& side, Tile& tile) {
  if (k.by_keys) {
    const int n = static_cast<int>(hn::Lanes(F32Tag())), from = tile.begin / n * n, to = (tile.end + n - 1) / n * n;
    const char* const* rows = PointAtTile(side, tile.places[tile.now].keys, from, to, tile);
    if (side.is_grid()) {
      PointAtSecondPlanes(side, from, to, tile);
      ScoresByLevels(k.q, k.stride, k.task.rows, codec_grid(side.spec->codec), rows + from, tile.second + from,
                     tile.places[1 - tile.now].keys + from, to - from, side.dims, k.converted, k.x + from);
      return;
    }
    ScoresByKeys(k.q, k.small_q, k.stride, k.task.rows, codec_dtype(side.spec->codec), rows + from,
                 tile.places[1 - tile.now].keys + from, to - from, side.dims, k.converted, k.x + from);
    return;
  }
  const int begin = tile.begin / kKeyStep * kKeyStep;
  const int end = (tile.end + kKeyStep - 1) / kKeyStep * kKeyStep;
  if (side.in_place(1)) {
    PointAtRows(side, tile.first, begin, end, tile.any, tile.rows);
    Scores(k.q, k.stride, tile.rows, begin, end, side.width(), k.x);
    return;
  }
  for (int j = begin; j < end; j += k.tiles.chunk_keys) {
    const int stop = j + k.tiles.chunk_keys < end ? j + k.tiles.chunk_keys : end;
    ConvertRows(side, tile.first, j, stop, tile.any, k.converted, tile.rows);
    Scores(k.q, k.stride, tile.rows, j, stop, side.width(), k.x);
  }
}

// ---- o += w v ----

// The same product where a value that only some rows see is not finite: what a row does not see is left out.
void SeenValues(const Block& k, const Tile& tile, int begin, int end, State& state) {
  const F32Tag d;
  const i64_t dims = k.args.spec.kv[0].d_v;
  for (int r = 0; r < k.task.rows; ++r) {
    float* o = state.o + static_cast<size_t>(r) * k.o_stride;
    for (int j = begin; j < end; ++j) {
      if (!(tile.seen[r] >> j & 1)) continue;
      const F32Vec w = hn::Set(d, k.x[static_cast<size_t>(j) * k.key_step() + static_cast<size_t>(r) * k.row_step()]);
      for (i64_t i = 0; i < dims; i += static_cast<i64_t>(hn::Lanes(d))) {
        hn::StoreU(
            hn::MulAdd(w, LoadF32(F32(), d, tile.rows[j] + i * static_cast<i64_t>(sizeof(float))), hn::LoadU(d, o + i)),
            d, o + i);
      }
    }
  }
}

void Decay(const Block& k, State& state) {
  const F32Tag d;
  for (int r = 0; r < k.task.rows; ++r) {
    float* o = state.o + static_cast<size_t>(r) * k.o_stride;
    for (size_t i = 0; i < k.o_stride; i += hn::Lanes(d)) {
      hn::Store(hn::Mul(hn::Load(d, o + i), hn::Set(d, k.decay[r])), d, o + i);
    }
  }
}

// May weights be multiplied by kSmallE4m3? They are at most a scale of V each.
bool ScalesStayFinite(const Tile& tile) {
  float most = 0;
  for (int j = tile.begin; j < tile.end; ++j) most = std::max(most, std::abs(tile.value_scale[j]));
  return StaysFinite(most);
}

// By keys.
void EnlargeWeights(const Block& k, const Tile& tile) {
  const F32Tag d;
  const int n = static_cast<int>(hn::Lanes(d));
  for (int r = 0; r < k.task.rows; ++r) {
    float* row = k.x + static_cast<ptrdiff_t>(r) * kTileKeys;
    for (int j = tile.begin / n * n; j < tile.end; j += n) {
      hn::Store(hn::Mul(hn::Load(d, row + j), hn::Set(d, kSmallE4m3)), d, row + j);
    }
  }
}

void TileValues(const Block& k, const TileSide& side, Tile& tile, State& state) {
  const Weights weights{k.x, k.key_step(), k.row_step()};
  // Few rows: a conversion in registers, for each four of them, costs less than a way through memory.
  if (k.by_keys && tile.uniform && !side.scaled_rows() && side.dims % static_cast<i64_t>(hn::Lanes(F32Tag())) == 0) {
    const char* const* rows = PointAtTile(side, tile.places[tile.now].values, tile.begin, tile.end, tile);
    if (side.is_grid()) {
      PointAtSecondPlanes(side, tile.begin, tile.end, tile);
      WithGrid(codec_grid(side.spec->codec), [&](auto grid) HWY_ATTR {
        Values(LevelRows<decltype(grid)::value>{rows, tile.second, tile.places[1 - tile.now].values}, weights,
               tile.begin, tile.end, side.dims, k.task.rows, k.decay, state.o, k.o_stride);
      });
      return;
    }
    const Dtype stored = codec_dtype(side.spec->codec);
    WithElementType(stored, ScalesStayFinite(tile), rows + tile.begin, tile.end - tile.begin, side.dims,
                    [&](auto type) HWY_ATTR {
                      if constexpr (std::is_same_v<decltype(type), SmallE4m3>) EnlargeWeights(k, tile);
                      Values(FloatRows<decltype(type)>{type, rows, tile.places[1 - tile.now].values}, weights,
                             tile.begin, tile.end, side.dims, k.task.rows, k.decay, state.o, k.o_stride);
                    });
    return;
  }
  bool scales_finite = true;
  for (int j = tile.begin; j < tile.end; ++j) scales_finite &= std::isfinite(tile.value_scale[j]);
  const bool in_place = side.in_place(static_cast<i64_t>(hn::Lanes(F32Tag())));
  const int chunk = in_place ? kTileKeys : k.tiles.chunk_keys;
  for (int j = tile.begin; j < tile.end; j += chunk) {
    const int stop = j + chunk < tile.end ? j + chunk : tile.end;
    bool finite = true;
    if (in_place) {
      PointAtRows(side, tile.first, j, stop, tile.any, tile.rows);
      finite = tile.uniform || RowsAreFinite(tile.rows, j, stop, side.dims);
    } else {
      finite = ConvertRows(side, tile.first, j, stop, tile.any, k.converted, tile.rows);
    }
    const float* decay = j == tile.begin ? k.decay : nullptr;
    if (tile.uniform || (finite && scales_finite)) {
      Values(FloatRows<F32>{{}, tile.rows, nullptr}, weights, j, stop, side.dims, k.task.rows, decay, state.o,
             k.o_stride);
    } else {
      if (decay) Decay(k, state);
      SeenValues(k, tile, j, stop, state);
    }
  }
}

// ---- splits ----

void Clear(const Block& k, State& state) {
  for (size_t i = 0; i < static_cast<size_t>(k.task.rows) * k.o_stride; ++i) state.o[i] = 0;
  for (size_t r = 0; r < k.stride; ++r) {
    state.top[r] = kNone;
    state.sum[r] = 0;
  }
}

// Which tokens of a segment a split covers.
struct SplitRange {
  int segment = 0;
  Interval tokens;
};

i64_t SplitCount(const Block& k) {
  i64_t count = 0;
  for (int s = 0; s < k.args.spec.segments; ++s) {
    count += (k.task.request.segment[s].held + k.tiles.split_keys - 1) / k.tiles.split_keys;
  }
  return count;
}

SplitRange RangeOfSplit(const Block& k, i64_t split) {
  for (int s = 0; s < k.args.spec.segments; ++s) {
    const i64_t held = k.task.request.segment[s].held;
    const i64_t count = (held + k.tiles.split_keys - 1) / k.tiles.split_keys;
    if (split < count) {
      return {s, {split * k.tiles.split_keys, at_most(held, (split + 1) * k.tiles.split_keys)}};
    }
    split -= count;
  }
  return {};
}

// The tiles of one split, into a cleared state. False where no row sees any of it.
bool RunTiles(Block& k, const SplitRange& range, State& state) {
  Interval held[kMaxBlockRows];
  Interval any = {range.tokens.hi, range.tokens.lo}, common = range.tokens;
  for (int r = 0; r < k.task.rows; ++r) {
    held[r] = intersect(attention_held(k.args, k.task.request, range.segment, k.interval[r]), range.tokens);
    common = intersect(common, held[r]);
    if (held[r].empty()) continue;
    any = {at_most(any.lo, held[r].lo), at_least(any.hi, held[r].hi)};
  }
  if (any.empty()) return false;
  const i64_t b = k.task.request.b, head = k.task.kv_head;
  const TileSide keys = KeySide(k.args, range.segment, b, head), values = ValueSide(k.args, range.segment, b, head);
  const float factor = k.args.spec.scale * k.args.spec.q_scale;
  Tile tile;
  tile.segment = range.segment;
  for (tile.first = any.lo / kTileKeys * kTileKeys; tile.first < any.hi; tile.first += kTileKeys) {
    if (!LookAtTile(k, held, common, tile)) {
      tile.known = false;
      continue;
    }
#if FOVEA_ATTENTION_AMX
    if (k.amx) {
      AmxTile(k, keys, values, factor, tile, state);
      continue;
    }
#endif
    // By keys whole vectors of scales are read.
    const int begin = k.by_keys ? tile.begin / kBlockRowStep * kBlockRowStep : tile.begin;
    const int end = k.by_keys ? (tile.end + kBlockRowStep - 1) / kBlockRowStep * kBlockRowStep : tile.end;
    TileScales(keys, tile.first, begin, end, tile.any, factor, tile.key_scale);
    TileScales(values, tile.first, begin, end, tile.any, 1.0f, tile.value_scale);
    if (k.by_keys) LookAhead(keys, values, any.hi, tile);
    TileScores(k, keys, tile);
    TileSoftmax(k, tile, state);
    TileValues(k, values, tile, state);
    tile.known = k.by_keys;
    tile.now = 1 - tile.now;
  }
  return true;
}

#if FOVEA_ATTENTION_AMX
// AMX takes subnormal numbers for 0. Rows whose sums are so small that this matters are computed once more in f32; the
// others see nothing meanwhile, which leaves them as they are.
void RepeatTinyRows(Block& k, const SplitRange& range, State& state) {
  const F32Tag d;
  const F32Vec tiny = hn::Set(d, 0x1p-90f), zero = hn::Zero(d);
  Interval intervals[kMaxBlockRows];
  bool any = false;
  for (int r = 0; r < k.task.rows; ++r) {
    intervals[r] = k.interval[r];
    float* o = state.o + static_cast<size_t>(r) * k.o_stride;
    bool is_tiny = state.sum[r] > 0;
    for (size_t i = 0; is_tiny && i < k.o_stride; i += hn::Lanes(d)) {
      is_tiny = hn::AllTrue(d, hn::Lt(hn::Abs(hn::Load(d, o + i)), tiny));
    }
    any |= is_tiny;
    if (!is_tiny) {
      k.interval[r] = {};
      continue;
    }
    for (size_t i = 0; i < k.o_stride; i += hn::Lanes(d)) hn::Store(zero, d, o + i);
    state.top[r] = kNone;
    state.sum[r] = 0;
  }
  if (any) {
    k.amx = false;
    PackQueries(k, 0);
    RunTiles(k, range, state);
    k.amx = true;
  }
  std::copy_n(intervals, k.task.rows, k.interval);
  if (any) PackQueriesForAmx(k);
}
#endif

int RotatedDims(const KvSpec& kv) {
  return codec_is_grid(kv.k.codec) ? kv.d_k - kv.d_rope : 0;
}

// Attention over one split, into a cleared state. False where no row sees any of it.
bool RunSplit(Block& k, const SplitRange& range, State& state) {
  const KvSpec& kv = k.args.kv[range.segment].spec;
  if (!k.amx && RotatedDims(kv) != k.rotated) PackQueries(k, RotatedDims(kv));
  if (!RunTiles(k, range, state)) return false;
  if (codec_is_grid(kv.v.codec)) {
    for (int r = 0; r < k.task.rows; ++r) {
      RotateVectorBack(*find_rotation(kv.d_v), state.o + static_cast<size_t>(r) * k.o_stride);
    }
  }
#if FOVEA_ATTENTION_AMX
  if (k.amx) RepeatTinyRows(k, range, state);
#endif
  return true;
}

// One row of a later split into the row so far. Merging with a row that saw nothing changes no bit.
void MergeRow(float* o, float& top, float& sum, const float* o2, float top2, float sum2, i64_t dims) {
  const F32Tag d;
  const float most = top > top2 ? top : top2;
  const float base = most == kNone ? 0 : most;
  const F32Vec w1 = ExpOfNonPositive(hn::Set(d, top - base)), w2 = ExpOfNonPositive(hn::Set(d, top2 - base));
  sum = hn::GetLane(hn::MulAdd(hn::Set(d, sum), w1, hn::Mul(hn::Set(d, sum2), w2)));
  top = most;
  i64_t i = 0;
  const i64_t n = static_cast<i64_t>(hn::Lanes(d));
  for (; i + n <= dims; i += n) {
    hn::StoreU(hn::MulAdd(hn::LoadU(d, o + i), w1, hn::Mul(hn::LoadU(d, o2 + i), w2)), d, o + i);
  }
  if (i == dims) return;
  const size_t rest = static_cast<size_t>(dims - i);
  const F32Vec last =
      hn::MulAdd(LoadF32Part(F32(), d, o + i, rest), w1, hn::Mul(LoadF32Part(F32(), d, o2 + i, rest), w2));
  StoreF32Part(F32(), d, last, o + i, rest);
}

// ---- outputs ----

void PutRow(const View& out, char* to, const float* o, float weight, float divisor, i64_t dims) {
  const F32Tag d;
  // Adding zero makes -0 of an underflow 0: then a row's bits cannot show which masked keys were multiplied by 0.
  WithFloatType(out.dtype, [&](auto type) HWY_ATTR {
    constexpr i64_t kBytes = sizeof(typename decltype(type)::Raw);
    const i64_t n = static_cast<i64_t>(hn::Lanes(d));
    const auto result = [&](F32Vec x) HWY_ATTR {
      return hn::Add(hn::Div(hn::Mul(x, hn::Set(d, weight)), hn::Set(d, divisor)), hn::Zero(d));
    };
    i64_t i = 0;
    for (; i + n <= dims; i += n) StoreF32(type, d, result(hn::LoadU(d, o + i)), to + i * kBytes);
    if (i < dims) {
      const size_t rest = static_cast<size_t>(dims - i);
      StoreF32Part(type, d, result(LoadF32Part(F32(), d, o + i, rest)), to + i * kBytes, rest);
    }
  });
}

// Row r from its sums, with the sink; a row that is not in use has none.
void FinishRow(const Block& k, int r, const float* o, float top, float sum) {
  const AttentionArgs& a = k.args;
  const AttentionRequest& request = k.task.request;
  const i64_t token = k.token(r), head = k.head(r), dims = a.spec.kv[0].d_v;
  const bool used = token >= request.active && token < request.active + request.q_len;
  double most = top, total = sum, weight = 1;
  if (used && a.sinks.given()) {
    const double sink = ScalarOf(row(a.sinks, head), Dtype::f32);
    if (!(sink <= most)) most = sink;
    if (most != kNone) {
      weight = top == kNone ? 0 : std::exp(static_cast<double>(top) - most);
      total = static_cast<double>(sum) * weight + std::exp(sink - most);
    }
  }
  const bool empty = total == 0;
  const float divisor = empty ? 1 : static_cast<float>(total) * (a.out.dtype == Dtype::e4m3 ? a.spec.out_scale : 1);
  static constexpr float kNothing[kMaxHeadDim] = {};
  const bool nothing = empty || weight == 0;  // sums that weigh nothing are not read as numbers
  PutRow(a.out, row(a.out, request.batch_row, request.first + token, head), nothing ? kNothing : o,
         static_cast<float>(weight), divisor, dims);
  if (!a.lse.given()) return;
  const float lse = empty ? kNone : static_cast<float>(most + std::log(total));
  __builtin_memcpy(row(a.lse, request.batch_row, request.first + token, head), &lse, sizeof lse);
}

// ---- the three entries ----

// Row of the partial results: tokens of all sequences, times heads.
i64_t PartialRow(const Block& k, int r) {
  const AttentionRequest& request = k.task.request;
  return ((request.batch_row * k.args.spec.tokens + request.first + k.token(r)) * k.args.spec.heads) + k.head(r);
}

// Keys that are scaled element by element are converted in memory.
bool InLanesByKeys(const AttentionArgs& args, const AttentionTask& task) {
  bool by_keys = task.rows <= kFewRows && !task.amx;
  for (int s = 0; s < args.spec.segments; ++s) {
    by_keys = by_keys && !KeySide(args, s, task.request.b, task.kv_head).scaled_rows();
  }
  return by_keys;
}

bool HasKeysOf(const AttentionArgs& args, Codec codec) {
  for (int s = 0; s < args.spec.segments; ++s) {
    if (args.kv[s].spec.k.codec == codec) return true;
  }
  return false;
}

// Sets up a block in the caller's frame and runs body(block, state of the sequence, state of a split).
template <class Body>
HWY_INLINE void WithBlock(const AttentionArgs& args, const AttentionTiles& tiles, const AttentionTask& task,
                          const Body& body) {
  alignas(64) float buffer[kBufferFloats];
  const size_t n = hn::Lanes(F32Tag());
  Block k{.args = args,
          .tiles = tiles,
          .task = task,
          .by_keys = InLanesByKeys(args, task),
          .amx = task.amx,
          .rotated = 0,
          .stride = (static_cast<size_t>(task.rows) + n - 1) / n * n,
          .o_stride = static_cast<size_t>(attention_padded(args.spec.kv[0].d_v)),
          .q = nullptr,
          .small_q = nullptr,
          .x = nullptr,
          .converted = nullptr,
          .weights = nullptr,
          .logits = nullptr,
          .interval = {},
          .position = {},
          .slope = {},
          .decay = {}};
  State whole, split;
  const size_t rows = (static_cast<size_t>(task.rows) + kBlockRowStep - 1) / kBlockRowStep * kBlockRowStep;
  float* next = buffer;
  const auto take = [&](size_t floats) {
    float* taken = next;
    next += floats;
    return taken;
  };
  const i64_t d_k = args.spec.kv[0].d_k;
  const size_t rows_of_q = rows * static_cast<size_t>(d_k);
  if (task.amx) {
    const i64_t d_v = args.spec.kv[0].d_v;
    k.q = take(static_cast<size_t>(amx_query_floats(static_cast<i64_t>(rows), d_k)));
    k.weights = reinterpret_cast<uint16_t*>(k.q + rows * static_cast<size_t>(amx_padded(d_k)) / 2);
    k.logits = k.q + rows * static_cast<size_t>(amx_padded(d_k)) / 2 + kAmxPair * kTileKeys / 2;
    k.x = take(static_cast<size_t>(amx_key_floats(static_cast<i64_t>(rows), d_k)));
    whole.o = take(rows * k.o_stride);
    split.o = take(rows * k.o_stride);
    k.converted = take(static_cast<size_t>(amx_value_floats(d_k, d_v)));
  } else {
    k.q = take(rows_of_q);
    k.x = take(rows * kTileKeys);
    whole.o = take(rows * k.o_stride);
    split.o = take(rows * k.o_stride);
    if (k.by_keys && HasKeysOf(args, Codec::fp8) && next + rows_of_q + kTurnedFloats <= buffer + kBufferFloats) {
      k.small_q = take(rows_of_q);
    }
    k.converted = take(0);
  }
  DescribeRows(k);
#if FOVEA_ATTENTION_AMX
  if (task.amx) amx_begin();
  body(k, whole, split);
  if (task.amx) amx_end();
#else
  body(k, whole, split);
#endif
}

void PackRows(Block& k) {
#if FOVEA_ATTENTION_AMX
  if (k.amx) return PackQueriesForAmx(k);
#endif
  PackQueries(k, RotatedDims(k.args.kv[0].spec));
}

void WholeBlock(const AttentionArgs& args, const AttentionTiles& tiles, const AttentionTask& task) {
  WithBlock(args, tiles, task, [&](Block& k, State& whole, State& split) HWY_ATTR {
    PackRows(k);
    Clear(k, whole);
    const i64_t dims = args.spec.kv[0].d_v;
    bool first = true;
    for (i64_t i = 0, n = SplitCount(k); i < n; ++i) {
      if (!first) Clear(k, split);
      if (!RunSplit(k, RangeOfSplit(k, i), first ? whole : split)) continue;
      for (int r = 0; r < task.rows && !first; ++r) {
        MergeRow(whole.o + static_cast<size_t>(r) * k.o_stride, whole.top[r], whole.sum[r],
                 split.o + static_cast<size_t>(r) * k.o_stride, split.top[r], split.sum[r], dims);
      }
      first = false;
    }
    for (int r = 0; r < task.rows; ++r) {
      FinishRow(k, r, whole.o + static_cast<size_t>(r) * k.o_stride, whole.top[r], whole.sum[r]);
    }
  });
}

void Split(const AttentionArgs& args, const AttentionTiles& tiles, const AttentionTask& task, i64_t index,
           const AttentionPartials& partials) {
  WithBlock(args, tiles, task, [&](Block& k, State&, State& split) HWY_ATTR {
    if (index >= SplitCount(k)) return;
    const i64_t dims = args.spec.kv[0].d_v;
    PackRows(k);
    Clear(k, split);
    RunSplit(k, RangeOfSplit(k, index), split);
    for (int r = 0; r < task.rows; ++r) {
      float* to = partials.at(PartialRow(k, r), index);
      __builtin_memcpy(to, split.o + static_cast<size_t>(r) * k.o_stride, static_cast<size_t>(dims) * sizeof(float));
      to[dims] = split.top[r];
      to[dims + 1] = split.sum[r];
    }
  });
}

void Merge(const AttentionArgs& args, const AttentionTiles& tiles, const AttentionTask& task,
           const AttentionPartials& partials) {
  WithBlock(args, tiles, task, [&](Block& k, State& whole, State&) HWY_ATTR {
    const i64_t dims = args.spec.kv[0].d_v, n = SplitCount(k);
    Clear(k, whole);
    for (int r = 0; r < task.rows; ++r) {
      float* o = whole.o + static_cast<size_t>(r) * k.o_stride;
      for (i64_t i = 0; i < n; ++i) {
        const float* part = partials.at(PartialRow(k, r), i);
        if (part[dims + 1] == 0) continue;  // saw nothing
        MergeRow(o, whole.top[r], whole.sum[r], part, part[dims], part[dims + 1], dims);
      }
      FinishRow(k, r, o, whole.top[r], whole.sum[r]);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::cpu {

HWY_EXPORT(WholeBlock);
HWY_EXPORT(Split);
HWY_EXPORT(Merge);

void attention_block(const Isa& isa, const AttentionArgs& args, const AttentionTiles& tiles,
                     const AttentionTask& task) {
  FOVEA_CPU_KERNEL(isa, WholeBlock)(args, tiles, task);
}
void attention_split(const Isa& isa, const AttentionArgs& args, const AttentionTiles& tiles, const AttentionTask& task,
                     i64_t split, const AttentionPartials& partials) {
  FOVEA_CPU_KERNEL(isa, Split)(args, tiles, task, split, partials);
}
void attention_merge(const Isa& isa, const AttentionArgs& args, const AttentionTiles& tiles, const AttentionTask& task,
                     const AttentionPartials& partials) {
  FOVEA_CPU_KERNEL(isa, Merge)(args, tiles, task, partials);
}

}  // namespace fovea::cpu
#endif
