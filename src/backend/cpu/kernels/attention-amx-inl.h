// SPDX-License-Identifier: Apache-2.0
// A tile of keys by AMX: logits as K Q^T, so that K is read where it lies and rows are in lanes, then weights as tiles
// of bf16 [row, key] against V of interleaved pairs of keys. Exponentials are of base 2; the state is as without AMX.
// A row's bits depend on its own keys alone here too: weights of keys that it does not see are 0 and add nothing, and
// where V is not finite among keys that only some rows see, tiles hold 0 there and those rows get it afterwards.
// Included once per Highway target; FOVEA_ATTENTION_AMX says whether that one has it.
#if defined(FOVEA_CPU_ATTENTION_AMX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_CPU_ATTENTION_AMX_INL_H_
#undef FOVEA_CPU_ATTENTION_AMX_INL_H_
#else
#define FOVEA_CPU_ATTENTION_AMX_INL_H_
#endif

#include <hwy/highway.h>

#include "backend/cpu/kernels/attention-block-inl.h"
#include "backend/cpu/kernels/attention-keys-inl.h"
#include "backend/cpu/kernels/attention-softmax-inl.h"
#include "backend/cpu/kernels/attention_amx.h"

#undef FOVEA_ATTENTION_AMX
#if FOVEA_CPU_AMX && HWY_TARGET <= HWY_AVX3
#define FOVEA_ATTENTION_AMX 1

HWY_BEFORE_NAMESPACE();
namespace fovea::cpu {
namespace HWY_NAMESPACE {

static_assert(hn::MaxLanes(F32Tag()) == kAmxRows);

inline int RowTiles(const Block& k) {
  return (k.task.rows + kAmxRows - 1) / kAmxRows;
}
// Elements of bf16 [i, i + 32) of a vector of n, zeros behind it.
HWY_INLINE WordVec LoadPairs(const char* p, i64_t i, i64_t n) {
  const WordTag d;
  const hn::Repartition<uint8_t, WordTag> db;
  const i64_t left = n - i;
  if (left >= kAmxDepth) return hn::BitCast(d, hn::LoadU(db, reinterpret_cast<const uint8_t*>(p) + 2 * i));
  HWY_ALIGN uint8_t part[2 * kAmxDepth] = {};
  __builtin_memcpy(part, p + 2 * i, static_cast<size_t>(2 * left));
  return hn::BitCast(d, hn::Load(db, part));
}

HWY_INLINE void StorePairs(WordVec words, uint16_t* to) {
  hn::Store(words, WordTag(), reinterpret_cast<uint32_t*>(to));
}

// ---- Q ----

// q: tiles [row tile, 32 dims], each [16 pairs of dims, 16 rows, 2].
void PackQueriesForAmx(Block& k) {
  const AttentionRequest& request = k.task.request;
  const i64_t dims = k.args.spec.kv[0].d_k;
  auto* to = reinterpret_cast<uint16_t*>(k.q);
  for (int tile = 0; tile < RowTiles(k); ++tile) {
    const char* rows[kAmxRows];
    for (int i = 0; i < kAmxRows; ++i) {
      const int r = tile * kAmxRows + i;
      const bool sees = r < k.task.rows && !k.interval[r].empty();
      rows[i] = sees ? row(k.args.q, request.batch_row, request.first + k.token(r), k.head(r))
                     : reinterpret_cast<const char*>(kZeroRow);
    }
    for (i64_t i = 0; i < dims; i += kAmxDepth, to += kAmxElements) {
      WordVec t[kWords];
      for (size_t r = 0; r < kWords; ++r) t[r] = LoadPairs(rows[r], i, dims);
      Transpose(t);
      for (size_t r = 0; r < kWords; ++r) StorePairs(t[r], to + r * kAmxDepth);
    }
  }
}

// ---- x = q k ----

// 16 rows of keys as a tile is loaded: where they lie if their distance is one and rows are whole tiles wide, else
// copied.
AmxKeys RowsOfKeys(const char* const* rows, i64_t dims, char* buffer) {
  const ptrdiff_t stride = rows[1] - rows[0];
  bool even = dims % kAmxDepth == 0;
  for (int j = 2; j < kAmxRows; ++j) even &= rows[j] - rows[j - 1] == stride;
  if (even) return {rows[0], stride};
  const ptrdiff_t width = amx_padded(dims) * 2;
  for (int j = 0; j < kAmxRows; ++j) {
    for (i64_t i = 0; i < dims; i += kAmxDepth) {
      StorePairs(LoadPairs(rows[j], i, dims), reinterpret_cast<uint16_t*>(buffer + j * width + 2 * i));
    }
  }
  return {buffer, width};
}

// Where the vectors of a tile's tokens lie, zeros where no row sees one.
void PointAtTokens(const TileSide& side, int begin, int end, Tile& tile) {
  if (tile.any == ~u64_t{0}) {
    PointAhead(side, tile.first, tile.first + kTileKeys, tile.rows);
  } else {
    PointAtRows(side, tile.first, begin, end, tile.any, tile.rows);
  }
}

// ---- weights ----

// 2^t for t at most about 0: 0 below 2^-126 and for -inf, exactly 1 for 0, NaN for NaN.
HWY_INLINE F32Vec Exp2(F32Vec t) {
  const F32Tag d;
  const hn::RebindToUnsigned<F32Tag> du;
  // Adding this rounds to an integer n and leaves n + 127 in the low bits.
  const F32Vec magic = hn::Set(d, 0x1.8p23f + 127);
  const F32Vec z = hn::Add(t, magic);
  const F32Vec r = hn::Sub(t, hn::Sub(z, magic));
  // Interpolation of (2^r - 1) / r at Chebyshev nodes of [-1/2, 1/2].
  F32Vec p = hn::Set(d, 0x1.5ec866p-10f);
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.3cbf60p-7f));
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.c6afeep-5f));
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.ebfa4cp-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.62e430p-1f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  const F32Vec y = hn::Mul(p, hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(du, z))));
  return hn::IfThenZeroElse(hn::Lt(t, hn::Set(d, -126.0f)), y);
}

// Two weights as bf16 in one word each, `low` in the lower half.
HWY_INLINE WordVec PairOf(F32Vec low, F32Vec high) {
  const WordTag d;
  const hn::Repartition<uint16_t, WordTag> dh;
  const WordVec half = hn::Set(d, 0x8000u);
  const WordVec a = hn::ShiftRight<16>(hn::Add(hn::BitCast(d, low), half)), b = hn::Add(hn::BitCast(d, high), half);
  return hn::BitCast(d, hn::OddEven(hn::BitCast(dh, b), hn::BitCast(dh, a)));
}

// How logits come from x = q k: as they are, times a factor, where nothing else has to be done with them.
struct Logits {
  bool plain;
  float scale;
};

HWY_INLINE float* LogitsOf(const Block& k, int key, size_t row) {
  return k.logits + static_cast<size_t>(key) * kAmxPair + row % kAmxPair;
}

// Masked logits of the rows [at, at + 16) into x, and their maximum: in units of Logits::scale if those are plain.
F32Vec LogitsOfRows(const Block& k, const Tile& tile, const Logits& logits, size_t at) {
  const F32Tag d;
  F32Vec top = hn::Set(d, kNone);
  if (logits.plain && tile.uniform) {
    for (int j = tile.begin; j < tile.end; ++j) top = hn::Max(hn::Load(d, LogitsOf(k, j, at)), top);
    return top;
  }
  for (int j = tile.begin; j < tile.end; ++j) {
    float* p = LogitsOf(k, j, at);
    F32Vec x = hn::Load(d, p);
    if (!logits.plain) x = Transform(k.args.spec, hn::Mul(x, hn::Set(d, logits.scale)));
    if (k.args.spec.alibi_rank > 0) x = hn::Sub(x, AlibiOfRows(k, tile, j, at));
    if (!tile.uniform) x = Mask(tile, j, at, x);
    hn::Store(x, d, p);
    top = hn::Max(x, top);
  }
  return top;
}

// Weights of the rows [at, at + 16) as tiles [row, key], in steps of 32 keys [first, last).
void AmxSoftmaxOfRows(Block& k, const Tile& tile, const Logits& logits, size_t at, int first, int last, State& state) {
  constexpr float kLog2e = 0x1.715476p+0f;
  const F32Tag d;
  const F32Vec none = hn::Set(d, kNone);
  for (int j = first * kAmxDepth; j < tile.begin; ++j) hn::Store(none, d, LogitsOf(k, j, at));
  for (int j = tile.end; j < last * kAmxDepth; ++j) hn::Store(none, d, LogitsOf(k, j, at));
  const float unit = logits.plain ? logits.scale : 1.0f;
  const F32Vec before = hn::Load(d, state.top + at), log2e = hn::Set(d, kLog2e);
  const F32Vec top = hn::Max(hn::Mul(LogitsOfRows(k, tile, logits, at), hn::Set(d, unit)), before);
  // Where nothing was seen yet, weights are 2^(-inf - 0).
  const F32Vec base = hn::Mul(hn::IfThenZeroElse(hn::Eq(top, none), top), log2e);
  const F32Vec decay = Exp2(hn::Sub(hn::Mul(before, log2e), base));
  const F32Vec factor = hn::Set(d, unit * kLog2e);
  F32Vec even = hn::Zero(d), odd = hn::Zero(d);
  for (int step = first; step < last; ++step) {
    const float* x = LogitsOf(k, step * kAmxDepth, at);
    WordVec words[kWords];
    for (size_t i = 0; i < kWords; ++i, x += 2 * kAmxPair) {
      const F32Vec w0 = Exp2(hn::MulSub(hn::Load(d, x), factor, base));
      const F32Vec w1 = Exp2(hn::MulSub(hn::Load(d, x + kAmxPair), factor, base));
      even = hn::Add(even, w0);
      odd = hn::Add(odd, w1);
      words[i] = PairOf(w0, w1);
    }
    Transpose(words);
    uint16_t* to = k.weights + (at % kAmxPair / kAmxRows * 2 + static_cast<size_t>(step)) * kAmxElements;
    for (size_t r = 0; r < kWords; ++r) StorePairs(words[r], to + r * kAmxDepth);
  }
  hn::Store(hn::MulAdd(hn::Load(d, state.sum + at), decay, hn::Add(even, odd)), d, state.sum + at);
  hn::Store(top, d, state.top + at);
  hn::Store(decay, d, k.decay + at);
}

// ---- o += w v ----

// v: tiles [16 dims, step], each [16 pairs of keys, 16 dims, 2]. Returns whether all is finite, if `look`.
bool PackValuesForAmx(const char* const* rows, i64_t dims, int first, int last, bool look, uint16_t* v) {
  const WordTag d;
  const hn::Repartition<uint16_t, WordTag> dh;
  const hn::Repartition<uint64_t, WordTag> dq;
  // So that interleaving within blocks of 16 bytes leaves the dims in order.
  alignas(64) static constexpr uint64_t kOrder[] = {0, 4, 1, 5, 2, 6, 3, 7};
  const auto order = hn::SetTableIndices(dq, kOrder);
  const auto ordered = [&](WordVec x)
                           HWY_ATTR { return hn::BitCast(dh, hn::TableLookupLanes(hn::BitCast(dq, x), order)); };
  auto most = hn::Zero(dh);
  for (int step = first; step < last; ++step) {
    for (int pair = 0; pair < kAmxRows; ++pair) {
      const char* const* row = rows + step * kAmxDepth + 2 * pair;
      uint16_t* to = v + static_cast<size_t>(step) * kAmxElements + static_cast<size_t>(pair) * kAmxDepth;
      for (i64_t i = 0; i < dims; i += kAmxDepth, to += 4 * kAmxElements) {
        const auto a = ordered(LoadPairs(row[0], i, dims)), b = ordered(LoadPairs(row[1], i, dims));
        StorePairs(hn::BitCast(d, hn::InterleaveLower(dh, a, b)), to);
        if (dims - i > kAmxRows) StorePairs(hn::BitCast(d, hn::InterleaveUpper(dh, a, b)), to + 2 * kAmxElements);
        if (!look) continue;
        const auto magnitude = hn::Set(dh, uint16_t{0x7FFF});
        most = hn::Max(most, hn::Max(hn::And(a, magnitude), hn::And(b, magnitude)));
      }
    }
  }
  return hn::AllTrue(dh, hn::Lt(most, hn::Set(dh, uint16_t{0x7F80})));
}

// Calls body(key, dim, place in the tiles, value) for the values that are not finite.
template <class Body>
void ForNotFinite(const char* const* rows, i64_t dims, const Tile& tile, const Body& body) {
  for (int j = tile.begin; j < tile.end; ++j) {
    for (i64_t i = 0; i < dims; ++i) {
      const uint16_t raw = load<uint16_t>(rows[j] + 2 * i);
      if ((raw & 0x7F80) != 0x7F80) continue;
      const size_t which = static_cast<size_t>(i / kAmxRows * 2 + j / kAmxDepth);
      const size_t within = static_cast<size_t>(j % kAmxDepth / 2 * kAmxDepth + i % kAmxRows * 2 + j % 2);
      body(j, i, which * kAmxElements + within, float_of_bits(uint32_t{raw} << 16));
    }
  }
}

// For the rows [from, to) of a pair.
void AddNotFinite(const Block& k, const Tile& tile, i64_t dims, int from, int to, State& state) {
  ForNotFinite(tile.rows, dims, tile, [&](int j, i64_t i, size_t, float value) {
    for (int r = from; r < to; ++r) {
      if (!(tile.seen[r] >> j & 1)) continue;
      const int at =
          (((r - from) / kAmxRows * 2 + j / kAmxDepth) * kAmxRows + r % kAmxRows) * kAmxDepth + j % kAmxDepth;
      state.o[static_cast<size_t>(r) * k.o_stride + static_cast<size_t>(i)] +=
          float_of_bits(uint32_t{k.weights[at]} << 16) * value;
    }
  });
}

// o = o decay + w v, for the rows [from, to) of a pair.
void AddValues(const Block& k, const uint16_t* v, int first, int last, int from, int to, State& state) {
  const F32Tag d;
  const int row_tiles = to - from > kAmxRows ? 2 : 1;
  float* sums = k.logits;
  for (size_t at = 0; at < k.o_stride; at += kAmxDims) {
    const size_t dims = k.o_stride - at < kAmxDims ? k.o_stride - at : kAmxDims;
    const int dim_tiles = static_cast<int>(dims) / kAmxRows;
    amx_values(k.weights, v + at / kAmxRows * 2 * kAmxElements, first, last, row_tiles, dim_tiles, sums);
    for (int r = from; r < to; ++r) {
      float* o = state.o + static_cast<size_t>(r) * k.o_stride + at;
      const float* sum = sums + static_cast<size_t>(r - from) * kAmxDims;
      const F32Vec decay = hn::Set(d, k.decay[r]);
      for (size_t i = 0; i < dims; i += kAmxRows) {
        hn::Store(hn::MulAdd(hn::Load(d, o + i), decay, hn::Load(d, sum + i)), d, o + i);
      }
    }
  }
}

// A tile that some row sees.
void AmxTile(Block& k, const TileSide& keys, const TileSide& values, float scale, Tile& tile, State& state) {
  const AttentionSpec& spec = k.args.spec;
  const Logits logits{.plain = !HasTransform(spec) && spec.alibi_rank == 0 && scale > 0, .scale = scale};
  // In groups of 16 keys and in steps of 32.
  const int begin = tile.begin / kAmxRows, end = (tile.end + kAmxRows - 1) / kAmxRows;
  const int first = begin / 2, last = (end + 1) / 2;
  const int steps = static_cast<int>(amx_padded(keys.dims) / kAmxDepth);
  AmxKeys groups[kTileKeys / kAmxRows];
  PointAtTokens(keys, begin * kAmxRows, end * kAmxRows, tile);
  for (int g = begin; g < end; ++g) {
    char* buffer = reinterpret_cast<char*>(k.x) + static_cast<size_t>(g * steps) * kAmxElements * 2;
    groups[g] = RowsOfKeys(tile.rows + g * kAmxRows, keys.dims, buffer);
  }
  auto* v = reinterpret_cast<uint16_t*>(k.converted);
  PointAtTokens(values, first * kAmxDepth, last * kAmxDepth, tile);
  const bool finite = PackValuesForAmx(tile.rows, values.dims, first, last, !tile.uniform, v);
  if (!finite) ForNotFinite(tile.rows, values.dims, tile, [&](int, i64_t, size_t at, float) { v[at] = 0; });
  const auto* q = reinterpret_cast<const uint16_t*>(k.q);
  for (int r = 0; r < k.task.rows; r += kAmxPair, q += static_cast<size_t>(2 * steps) * kAmxElements) {
    const int to = k.task.rows - r < kAmxPair ? k.task.rows : r + kAmxPair, row_tiles = to - r > kAmxRows ? 2 : 1;
    for (int g = begin; g < end; g += 2) {
      amx_scores(groups + g, end - g < 2 ? 1 : 2, q, steps, row_tiles, LogitsOf(k, g * kAmxRows, 0));
    }
    for (int t = 0; t < row_tiles; ++t) {
      AmxSoftmaxOfRows(k, tile, logits, static_cast<size_t>(r + t * kAmxRows), first, last, state);
    }
    AddValues(k, v, first, last, r, to, state);
    if (!finite) AddNotFinite(k, tile, values.dims, r, to, state);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::cpu
HWY_AFTER_NAMESPACE();

#else
#define FOVEA_ATTENTION_AMX 0
#endif

#endif
