// SPDX-License-Identifier: Apache-2.0
// q k where rows are few: lanes are keys, whose elements are converted and turned to [dim, key] in registers, so that
// no lane is idle. Where there are registers enough they stay there, else they go through memory. Each logit is the
// same chain of multiply-adds as with rows in lanes. Included once per Highway target.
#if defined(FOVEA_CPU_ATTENTION_KEYS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_CPU_ATTENTION_KEYS_INL_H_
#undef FOVEA_CPU_ATTENTION_KEYS_INL_H_
#else
#define FOVEA_CPU_ATTENTION_KEYS_INL_H_
#endif

#include <hwy/highway.h>

#include <type_traits>

#include "backend/cpu/kernels/attention-kv-inl.h"
#include "backend/cpu/kernels/attention-tile-inl.h"
#include "backend/cpu/kernels/convert-inl.h"
#include "backend/cpu/kernels/grid-inl.h"
#include "shared/params/attention.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::cpu {
namespace HWY_NAMESPACE {

inline constexpr int kTurnedDims = 64;  // dims that are turned at a time
static_assert(kTurnedDims * kTileKeys <= kTurnedFloats);

using WordTag = hn::RebindToUnsigned<F32Tag>;
using WordVec = hn::Vec<WordTag>;
inline constexpr size_t kWords = hn::MaxLanes(F32Tag());

// In each block of four lanes: t[r] lane c <-> t[c] lane r.
HWY_INLINE void TransposeBlocks(WordVec* HWY_RESTRICT t) {
  const WordTag d;
  const WordVec a0 = hn::InterleaveLower(d, t[0], t[2]), a1 = hn::InterleaveUpper(d, t[0], t[2]);
  const WordVec b0 = hn::InterleaveLower(d, t[1], t[3]), b1 = hn::InterleaveUpper(d, t[1], t[3]);
  t[0] = hn::InterleaveLower(d, a0, b0);
  t[1] = hn::InterleaveUpper(d, a0, b0);
  t[2] = hn::InterleaveLower(d, a1, b1);
  t[3] = hn::InterleaveUpper(d, a1, b1);
}

// t[r] lane c <-> t[c] lane r.
HWY_INLINE void Transpose(WordVec (&t)[kWords]) {
  const WordTag d;
  // t[4 g + c] gets lane c of rows 4 g .. 4 g + 3, in each block.
  Unroll<kWords / 4>([&](auto g) FOVEA_INLINE_LAMBDA { TransposeBlocks(t + 4 * g); });
  // Then the blocks themselves: block b of t[4 g + c] <-> block g of t[4 b + c].
  if constexpr (kWords == 8) {
    Unroll<4>([&](auto c) FOVEA_INLINE_LAMBDA {
      const WordVec lower = hn::ConcatLowerLower(d, t[4 + c], t[c]);
      t[4 + c] = hn::ConcatUpperUpper(d, t[4 + c], t[c]);
      t[c] = lower;
    });
  } else if constexpr (kWords == 16) {
    Unroll<4>([&](auto c) FOVEA_INLINE_LAMBDA {
      const WordVec p0 = hn::ConcatLowerLower(d, t[8 + c], t[c]), p2 = hn::ConcatUpperUpper(d, t[8 + c], t[c]);
      const WordVec p1 = hn::ConcatLowerLower(d, t[12 + c], t[4 + c]);
      const WordVec p3 = hn::ConcatUpperUpper(d, t[12 + c], t[4 + c]);
      t[c] = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(p1), p0);
      t[4 + c] = hn::OddEvenBlocks(p1, hn::SwapAdjacentBlocks(p0));
      t[8 + c] = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(p3), p2);
      t[12 + c] = hn::OddEvenBlocks(p3, hn::SwapAdjacentBlocks(p2));
    });
  }
}

// Element `at` of those that lie in each word.
template <class Type, size_t at>
HWY_INLINE F32Vec ElementOfWords(Type type, std::integral_constant<size_t, at>, WordVec words) {
  const F32Tag d;
  const WordTag du;
  if constexpr (Type::dtype == Dtype::f32) {
    return hn::BitCast(d, words);
  } else if constexpr (Type::dtype == Dtype::bf16) {
    return hn::BitCast(d, at == 0 ? hn::ShiftLeft<16>(words) : hn::And(words, hn::Set(du, 0xFFFF0000u)));
  } else if constexpr (Type::dtype == Dtype::e4m3) {
    return WidenTop(type, d, hn::ShiftLeft<24 - 8 * at>(words));
  } else {
    constexpr int kBits = 8 * sizeof(typename Type::Raw);
    return Widen(type, d, hn::And(hn::ShiftRight<at * kBits>(words), hn::Set(du, (1u << kBits) - 1)));
  }
}

// turned[i][j] = element i of key j as f32, i < dims <= kTurnedDims, j < count: a multiple of the lanes.
// keys: pointers to vectors, whose elements from byte `offset` on are turned; ahead: to those that come a tile later.
// turned: [kTurnedDims, 64].
template <class Type>
HWY_INLINE void TurnKeys(Type type, const char* const* keys, const char* const* ahead, i64_t offset, int count,
                         i64_t dims, float* HWY_RESTRICT turned) {
  const F32Tag d;
  const hn::Repartition<uint8_t, F32Tag> db;
  constexpr size_t kBytes = sizeof(typename Type::Raw), kPerWord = 4 / kBytes, kStep = kWords * kPerWord;
  static_assert(kTurnedDims % kStep == 0);
  for (int j = 0; j < count; j += static_cast<int>(kWords)) {
    for (size_t i = 0; i < static_cast<size_t>(dims); i += kStep) {
      WordVec t[kWords];
      const size_t left = static_cast<size_t>(dims) - i, from = static_cast<size_t>(offset) + i * kBytes;
      Unroll<kWords>([&](auto r) FOVEA_INLINE_LAMBDA {
        const auto* p = reinterpret_cast<const uint8_t*>(keys[j + static_cast<int>(r)]) + from;
        __builtin_prefetch(ahead[j + static_cast<int>(r)] + from, 0, 2);
        if (HWY_LIKELY(left >= kStep)) {
          t[r] = hn::BitCast(WordTag(), hn::LoadU(db, p));
        } else {
          HWY_ALIGN uint8_t part[kWords * 4] = {};
          __builtin_memcpy(part, p, left * kBytes);
          t[r] = hn::BitCast(WordTag(), hn::Load(db, part));
        }
      });
      Transpose(t);
      Unroll<kWords>([&](auto c) FOVEA_INLINE_LAMBDA {
        Unroll<kPerWord>([&](auto e) FOVEA_INLINE_LAMBDA {
          hn::StoreU(ElementOfWords(type, e, t[c]), d,
                     turned + (i + c * kPerWord + e) * kTileKeys + static_cast<size_t>(j));
        });
      });
    }
  }
}

// scores[r][j] += sum_i q[i][r] turned[i][j], i ascending, from 0 where `first`. q: [dims, stride], turned: [dims, 64],
// scores: [rows, 64].
template <size_t kRows, size_t kVecs>
HWY_INLINE void ScoresOfRows(const float* HWY_RESTRICT q, size_t stride, const float* HWY_RESTRICT turned, i64_t dims,
                             bool first, float* HWY_RESTRICT scores) {
  const F32Tag d;
  const size_t n = hn::Lanes(d);
  F32Vec sum[kRows][kVecs];
  Unroll<kRows>([&](auto r) FOVEA_INLINE_LAMBDA {
    Unroll<kVecs>([&](auto v) FOVEA_INLINE_LAMBDA {
      sum[r][v] = first ? hn::Zero(d) : hn::LoadU(d, scores + r * kTileKeys + v * n);
    });
  });
  for (i64_t i = 0; i < dims; ++i, q += stride, turned += kTileKeys) {
    F32Vec key[kVecs];
    Unroll<kVecs>([&](auto v) FOVEA_INLINE_LAMBDA { key[v] = hn::LoadU(d, turned + v * n); });
    Unroll<kRows>([&](auto r) FOVEA_INLINE_LAMBDA {
      const F32Vec x = hn::Set(d, q[r]);
      Unroll<kVecs>([&](auto v) FOVEA_INLINE_LAMBDA { sum[r][v] = hn::MulAdd(x, key[v], sum[r][v]); });
    });
  }
  Unroll<kRows>([&](auto r) FOVEA_INLINE_LAMBDA {
    Unroll<kVecs>([&](auto v) FOVEA_INLINE_LAMBDA { hn::StoreU(sum[r][v], d, scores + r * kTileKeys + v * n); });
  });
}

template <size_t kRows>
inline void ScoresOfTurned(const float* q, size_t stride, const float* turned, int count, i64_t dims, bool first,
                           float* scores) {
  constexpr int kVecs = HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64 ? 4 : 2, n = static_cast<int>(kWords);
  int j = 0;
  for (; j + kVecs * n <= count; j += kVecs * n) {
    ScoresOfRows<kRows, kVecs>(q, stride, turned + j, dims, first, scores + j);
  }
  for (; j < count; j += n) ScoresOfRows<kRows, 1>(q, stride, turned + j, dims, first, scores + j);
}

#if HWY_TARGET <= HWY_AVX3
inline constexpr int kGroups = 2;  // vectors of keys that share what is loaded of Q
inline constexpr int kGroupKeys = kGroups * static_cast<int>(kWords);
inline constexpr int kMostRows = 4;  // more would not fit into registers
inline constexpr i64_t kPieceBytes = 16;

// The words of one piece of sixteen keys: t[c] lane j = word c of key j.
HWY_INLINE void LoadPieces(const char* const* keys, i64_t from, WordVec (&t)[4]) {
  Unroll<4>([&](auto r) FOVEA_INLINE_LAMBDA {
    const auto piece = [&](int key) FOVEA_INLINE_LAMBDA {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(keys[static_cast<int>(r) + key] + from));
    };
    // Each load puts its piece into its block, which takes no shuffle.
    __m512i blocks = _mm512_castsi128_si512(piece(0));
    blocks = _mm512_mask_broadcast_i32x4(blocks, 0x00F0, piece(4));
    blocks = _mm512_mask_broadcast_i32x4(blocks, 0x0F00, piece(8));
    t[r] = WordVec{_mm512_mask_broadcast_i32x4(blocks, 0xF000, piece(12))};
  });
  TransposeBlocks(t);
}

// scores[r][j] = sum_i q[i][r] * keys[j][i] for kGroupKeys keys. dims are whole pieces. q: [dims, stride], scores:
// [rows, 64].
template <size_t kRows, class Type>
HWY_INLINE void ScoresInRegisters(Type type, const float* HWY_RESTRICT q, size_t stride, const char* const* keys,
                                  const char* const* ahead, i64_t dims, float* HWY_RESTRICT scores) {
  const F32Tag d;
  constexpr size_t kPerWord = 4 / sizeof(typename Type::Raw);
  const i64_t bytes = dims * static_cast<i64_t>(sizeof(typename Type::Raw));
  F32Vec sum[kRows][kGroups];
  Unroll<kRows>([&](auto r) FOVEA_INLINE_LAMBDA {
    Unroll<kGroups>([&](auto g) FOVEA_INLINE_LAMBDA { sum[r][g] = hn::Zero(d); });
  });
  for (i64_t from = 0; from < bytes; from += kPieceBytes, q += 4 * kPerWord * stride) {
    // A part of the line's keys with each piece: more at a time would fill the buffers for misses.
    for (int j = 0; j < kGroupKeys / 4; ++j) {
      __builtin_prefetch(ahead[(from / kPieceBytes % 4) * (kGroupKeys / 4) + j] + from / 64 * 64, 0, 2);
    }
    WordVec words[kGroups][4];
    Unroll<kGroups>([&](auto g) FOVEA_INLINE_LAMBDA { LoadPieces(keys + g * kWords, from, words[g]); });
    Unroll<4>([&](auto c) FOVEA_INLINE_LAMBDA {
      Unroll<kPerWord>([&](auto e) FOVEA_INLINE_LAMBDA {
        F32Vec key[kGroups];
        Unroll<kGroups>([&](auto g) FOVEA_INLINE_LAMBDA { key[g] = ElementOfWords(type, e, words[g][c]); });
        Unroll<kRows>([&](auto r) FOVEA_INLINE_LAMBDA {
          const F32Vec x = hn::Set(d, q[(c * kPerWord + e) * stride + r]);
          Unroll<kGroups>([&](auto g) FOVEA_INLINE_LAMBDA { sum[r][g] = hn::MulAdd(x, key[g], sum[r][g]); });
        });
      });
    });
  }
  Unroll<kRows>([&](auto r) FOVEA_INLINE_LAMBDA {
    Unroll<kGroups>([&](auto g) FOVEA_INLINE_LAMBDA { hn::StoreU(sum[r][g], d, scores + r * kTileKeys + g * kWords); });
  });
}

// As many keys of keys[0, count) as there are whole groups; returns how many.
template <class Type>
HWY_INLINE int ScoresOfGroups(Type type, const float* q, size_t stride, int rows, const char* const* keys,
                              const char* const* ahead, int count, i64_t dims, float* scores) {
  if (rows > kMostRows || dims * static_cast<i64_t>(sizeof(typename Type::Raw)) % kPieceBytes != 0) return 0;
  int j = 0;
  for (; j + kGroupKeys <= count; j += kGroupKeys) {
    ForRows(rows, [&](auto size, int r) FOVEA_INLINE_LAMBDA {
      ScoresInRegisters<size>(type, q + r, stride, keys + j, ahead + j, dims,
                              scores + static_cast<ptrdiff_t>(r) * kTileKeys + j);
    });
  }
  return j;
}
#else
template <class Type>
HWY_INLINE int ScoresOfGroups(Type, const float*, size_t, int, const char* const*, const char* const*, int, i64_t,
                              float*) {
  return 0;
}
#endif

// scores[r][j] for the keys at keys[0, count). q and small_q: [dims, stride], the second one, where not null, is
// q * kSmallE4m3. buffer: kTurnedFloats.
inline void ScoresByKeys(const float* q, const float* small_q, size_t stride, int rows, Dtype type,
                         const char* const* keys, const char* const* ahead, int count, i64_t dims, float* buffer,
                         float* scores) {
  WithElementType(type, small_q != nullptr, keys, count, dims, [&](auto t) HWY_ATTR {
    constexpr i64_t kBytes = sizeof(typename decltype(t)::Raw);
    const float* part = std::is_same_v<decltype(t), SmallE4m3> ? small_q : q;
    const int done = ScoresOfGroups(t, part, stride, rows, keys, ahead, count, dims, scores);
    if (done == count) return;
    for (i64_t i = 0; i < dims; i += kTurnedDims, part += stride * kTurnedDims) {
      const i64_t n = at_most(dims - i, kTurnedDims);
      TurnKeys(t, keys + done, ahead + done, i * kBytes, count - done, n, buffer);
      ForRows(rows, [&](auto size, int r) FOVEA_INLINE_LAMBDA {
        ScoresOfTurned<size>(part + r, stride, buffer, count - done, n, i == 0,
                             scores + static_cast<ptrdiff_t>(r) * kTileKeys + done);
      });
    }
  });
}

#if HWY_TARGET <= HWY_AVX3
// How a grid's planes are read a piece at a time: a piece of the second plane, where there is one, belongs to
// `low_pieces` of the first.
template <Grid g>
struct GridPieces {
  static constexpr int kLowBits = grid_planes(g).bits[0], kHighBits = grid_planes(g).bits[1];
  static constexpr size_t kPerWord = 32 / static_cast<size_t>(kLowBits);
  static constexpr int kLowPieces = kHighBits > 0 ? kLowBits / kHighBits : 1;
  static constexpr size_t kHighWords = 4 / kLowPieces;  // of the second plane for a piece of the first
  static constexpr i64_t kStepBytes = kPieceBytes * kLowPieces;
};

// Levels of one code of each word; `at` counts codes of a piece of the first plane. high: the words that have its rest.
template <Grid g, size_t at>
HWY_INLINE F32Vec LevelOfWords(std::integral_constant<size_t, at>, WordVec low, WordVec high) {
  const F32Tag d;
  const WordTag du;
  const hn::RebindToSigned<F32Tag> di;
  constexpr int kAt = static_cast<int>(at), kShift = bit_place(g, kAt, 0).bit % 32;
  if constexpr (g == Grid::i8) {
    return hn::ConvertTo(d, hn::ShiftRight<24>(hn::BitCast(di, hn::ShiftLeft<24 - kShift>(low))));
  } else if constexpr (g == Grid::q2) {
    return LevelOfIndex<g>(hn::ShiftRight<kShift>(low));
  } else if constexpr (grid_has_signs(g)) {
    constexpr int kSign = bit_place(g, kAt, grid_row(g).bits - 1).bit % 32;
    return WithSignOf(LevelOfIndex<g>(hn::ShiftRight<kShift>(low)), hn::ShiftLeft<31 - kSign>(high));
  } else {
    // As the fraction of a number from 2^7 on, whose bits 16 and up are worth 1 and more.
    constexpr int kHigh = bit_place(g, kAt, 4).bit % 32;
    constexpr uint32_t kLowMask = 0xFu << 16, kHighMask = ((1u << (grid_row(g).bits - 4)) - 1) << 20;
    const WordVec first =
        kShift <= 16 ? hn::ShiftLeft<(16 - kShift) & 31>(low) : hn::ShiftRight<(kShift - 16) & 31>(low);
    const WordVec second =
        kHigh <= 20 ? hn::ShiftLeft<(20 - kHigh) & 31>(high) : hn::ShiftRight<(kHigh - 20) & 31>(high);
    const WordVec whole =
        hn::OrAnd(hn::OrAnd(hn::Set(du, 0x43000000u), first, hn::Set(du, kLowMask)), second, hn::Set(du, kHighMask));
    return hn::Sub(hn::BitCast(d, whole), hn::Set(d, 128.0f + static_cast<float>((1 << grid_row(g).bits) - 1) * 0.5f));
  }
}

// As ScoresInRegisters, of keys on a grid. bytes: of a row of the first plane.
template <size_t kRows, Grid g>
HWY_INLINE void LevelScoresInRegisters(const float* HWY_RESTRICT q, size_t stride, const char* const* low,
                                       const char* const* high, const char* const* ahead, i64_t bytes,
                                       float* HWY_RESTRICT scores) {
  using Pieces = GridPieces<g>;
  const F32Tag d;
  F32Vec sum[kRows][kGroups];
  Unroll<kRows>([&](auto r) FOVEA_INLINE_LAMBDA {
    Unroll<kGroups>([&](auto group) FOVEA_INLINE_LAMBDA { sum[r][group] = hn::Zero(d); });
  });
  for (i64_t from = 0; from < bytes; from += Pieces::kStepBytes) {
    WordVec rest[kGroups][4];
    if constexpr (Pieces::kHighBits > 0) {
      Unroll<kGroups>([&](auto group) FOVEA_INLINE_LAMBDA {
        LoadPieces(high + group * kWords, from / Pieces::kLowPieces, rest[group]);
      });
    }
    for (int piece = 0; piece < Pieces::kLowPieces; ++piece) {
      const i64_t at = from + piece * kPieceBytes;
      for (int j = 0; j < kGroupKeys / 4; ++j) {
        __builtin_prefetch(ahead[(at / kPieceBytes % 4) * (kGroupKeys / 4) + j] + at / 64 * 64, 0, 2);
      }
      WordVec words[kGroups][4];
      Unroll<kGroups>([&](auto group) FOVEA_INLINE_LAMBDA { LoadPieces(low + group * kWords, at, words[group]); });
      Unroll<4>([&](auto c) FOVEA_INLINE_LAMBDA {
        Unroll<Pieces::kPerWord>([&](auto e) FOVEA_INLINE_LAMBDA {
          constexpr std::integral_constant<size_t, c * Pieces::kPerWord + e> kCode{};
          F32Vec key[kGroups];
          Unroll<kGroups>([&](auto group) FOVEA_INLINE_LAMBDA {
            WordVec more = words[group][c];
            if constexpr (Pieces::kHighBits > 0) {
              more = rest[group][static_cast<size_t>(piece) * Pieces::kHighWords + c * Pieces::kHighWords / 4];
            }
            key[group] = LevelOfWords<g>(kCode, words[group][c], more);
          });
          Unroll<kRows>([&](auto r) FOVEA_INLINE_LAMBDA {
            const F32Vec x = hn::Set(d, q[r]);
            Unroll<kGroups>([&](auto group)
                                FOVEA_INLINE_LAMBDA { sum[r][group] = hn::MulAdd(x, key[group], sum[r][group]); });
          });
          q += stride;
        });
      });
    }
  }
  Unroll<kRows>([&](auto r) FOVEA_INLINE_LAMBDA {
    Unroll<kGroups>([&](auto group)
                        FOVEA_INLINE_LAMBDA { hn::StoreU(sum[r][group], d, scores + r * kTileKeys + group * kWords); });
  });
}

// As many keys as there are whole groups, where rows are whole steps; returns how many.
inline int LevelScoresOfGroups(const float* q, size_t stride, int rows, Grid g, const char* const* low,
                               const char* const* high, const char* const* ahead, int count, i64_t dims,
                               float* scores) {
  if (rows > kMostRows) return 0;
  return WithGrid(g, [&](auto grid) FOVEA_INLINE_LAMBDA {
    constexpr Grid kGrid = decltype(grid)::value;
    const i64_t bytes = plane_row_bytes(GridPieces<kGrid>::kLowBits, static_cast<int>(dims));
    if (bytes % GridPieces<kGrid>::kStepBytes != 0) return 0;
    int j = 0;
    for (; j + kGroupKeys <= count; j += kGroupKeys) {
      ForRows(rows, [&](auto size, int r) FOVEA_INLINE_LAMBDA {
        LevelScoresInRegisters<size, kGrid>(q + r, stride, low + j, high + j, ahead + j, bytes,
                                            scores + static_cast<ptrdiff_t>(r) * kTileKeys + j);
      });
    }
    return j;
  });
}
#else
inline int LevelScoresOfGroups(const float*, size_t, int, Grid, const char* const*, const char* const*,
                               const char* const*, int, i64_t, float*) {
  return 0;
}
#endif

// The same for keys of a grid, whose levels are turned instead. low, high: rows of their planes. Both steps have whole
// vectors: dims are a multiple of 16.
inline void ScoresByLevels(const float* q, size_t stride, int rows, Grid g, const char* const* low,
                           const char* const* high, const char* const* ahead, int count, i64_t dims,
                           float* HWY_RESTRICT buffer, float* scores) {
  const F32Tag d;
  const WordTag du;
  const int done = LevelScoresOfGroups(q, stride, rows, g, low, high, ahead, count, dims, scores);
  if (done == count) return;
  low += done;
  high += done;
  ahead += done;
  scores += done;
  count -= done;
  for (i64_t i = 0; i < dims; i += kTurnedDims, q += stride * kTurnedDims) {
    const i64_t n = at_most(dims - i, kTurnedDims);
    WithGrid(g, [&](auto grid) HWY_ATTR {
      for (int j = 0; j < count; j += static_cast<int>(kWords)) {
        for (i64_t at = 0; at < n; at += static_cast<i64_t>(kWords)) {
          WordVec t[kWords];
          Unroll<kWords>([&](auto r) FOVEA_INLINE_LAMBDA {
            const auto key = static_cast<size_t>(j) + r;
            __builtin_prefetch(ahead[key] + (i + at) * grid_planes(decltype(grid)::value).bits[0] / 8, 0, 2);
            t[r] = hn::BitCast(du, LoadLevels<decltype(grid)::value>(reinterpret_cast<const u8_t*>(low[key]),
                                                                     reinterpret_cast<const u8_t*>(high[key]),
                                                                     static_cast<int>(i + at)));
          });
          Transpose(t);
          Unroll<kWords>([&](auto c) FOVEA_INLINE_LAMBDA {
            hn::StoreU(hn::BitCast(d, t[c]), d, buffer + (static_cast<size_t>(at) + c) * kTileKeys + j);
          });
        }
      }
    });
    ForRows(rows, [&](auto size, int r) FOVEA_INLINE_LAMBDA {
      ScoresOfTurned<size>(q + r, stride, buffer, count, n, i == 0, scores + static_cast<ptrdiff_t>(r) * kTileKeys);
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::cpu
HWY_AFTER_NAMESPACE();

#endif
