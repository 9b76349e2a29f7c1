// SPDX-License-Identifier: Apache-2.0
// Quantised K and V by vectors: rotation and encoding with the bits of shared/kv, and levels as f32. d is a multiple of
// 16. Included once per Highway target.
#if defined(FOVEA_CPU_GRID_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_CPU_GRID_INL_H_
#undef FOVEA_CPU_GRID_INL_H_
#else
#define FOVEA_CPU_GRID_INL_H_
#endif

#include <hwy/highway.h>

#include "backend/cpu/kernels/lanes-inl.h"
#include "shared/kv/encode.h"
#include "shared/kv/planes.h"
#include "shared/kv/rotation.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::cpu {
namespace HWY_NAMESPACE {

using GridWordTag = hn::RebindToUnsigned<F32Tag>;
using GridWordVec = hn::Vec<GridWordTag>;

// ---- rotation ----

// Lane i holds lane i ^ step.
template <int kStep>
HWY_INLINE F32Vec Across(F32Vec x) {
  const F32Tag d;
  if constexpr (kStep == 1) return hn::Reverse2(d, x);
  if constexpr (kStep == 2) return hn::Shuffle1032(x);
  if constexpr (kStep == 4) return hn::SwapAdjacentBlocks(x);
  if constexpr (kStep == 8) return hn::ConcatLowerUpper(d, x, x);
  return x;
}

// a + b where the lane's bit `step` is 0, a - b where it is 1.
template <int kStep>
HWY_INLINE F32Vec ButterflyInVector(F32Vec x) {
  const F32Tag d;
  const GridWordTag du;
  const F32Vec y = Across<kStep>(x);
  const auto second = hn::TestBit(hn::Iota(du, 0), hn::Set(du, static_cast<uint32_t>(kStep)));
  return hn::IfThenElse(hn::RebindMask(d, second), hn::Sub(y, x), hn::Add(x, y));
}

template <int kStep>
HWY_INLINE F32Vec ButterfliesFrom(F32Vec x, int run) {
  if constexpr (kStep < static_cast<int>(hn::MaxLanes(F32Tag()))) {
    if (kStep >= run) return x;
    return ButterfliesFrom<2 * kStep>(ButterflyInVector<kStep>(x), run);
  }
  return x;
}

inline void Butterflies(const Rotation& r, float* HWY_RESTRICT x) {
  const F32Tag d;
  const int n = static_cast<int>(hn::Lanes(d)), run = r.d / r.order;
  for (int i = 0; i < r.d; i += n) hn::StoreU(ButterfliesFrom<1>(hn::LoadU(d, x + i), run), d, x + i);
  for (int step = n; step < run; step *= 2) {
    for (int first = 0; first < r.d; first += 2 * step) {
      for (int i = first; i < first + step; i += n) {
        const F32Vec a = hn::LoadU(d, x + i), b = hn::LoadU(d, x + i + step);
        hn::StoreU(hn::Add(a, b), d, x + i);
        hn::StoreU(hn::Sub(a, b), d, x + i + step);
      }
    }
  }
}

template <class D>
HWY_INLINE void SmallMatrixBy(D d, const Rotation& r, bool transposed, float* HWY_RESTRICT x) {
  const int run = r.d / r.order;
  float y[kMostRotatedDim];
  for (int at = 0; at < run; at += static_cast<int>(hn::Lanes(d))) {
    for (int i = 0; i < r.order; ++i) {
      hn::Vec<D> sum = hn::Zero(d);
      for (int j = 0; j < r.order; ++j) {
        const bool negative = transposed ? is_negative(r.rows + j, i) : is_negative(r.rows + i, j);
        const hn::Vec<D> v = hn::LoadU(d, x + j * run + at);
        sum = negative ? hn::Sub(sum, v) : hn::Add(sum, v);
      }
      hn::StoreU(sum, d, y + i * run + at);
    }
  }
  for (int i = 0; i < r.d; ++i) x[i] = y[i];
}
inline void SmallMatrix(const Rotation& r, bool transposed, float* x) {
  const int run = r.d / r.order;
  if (r.order == 1) return;
  if (run >= 16) return SmallMatrixBy(hn::CappedTag<float, 16>(), r, transposed, x);
  if (run >= 8) return SmallMatrixBy(hn::CappedTag<float, 8>(), r, transposed, x);
  SmallMatrixBy(hn::CappedTag<float, 4>(), r, transposed, x);
}

inline void Signs(const Rotation& r, float* HWY_RESTRICT x) {
  const F32Tag d;
  const GridWordTag du;
  const int n = static_cast<int>(hn::Lanes(d));
  const GridWordVec lane = hn::Shl(hn::Set(du, 1u), hn::Iota(du, 0));
  for (int i = 0; i < r.d; i += n) {
    const GridWordVec bits = hn::Set(du, r.signs[i / 32] >> (i % 32));
    const auto negative = hn::RebindMask(d, hn::TestBit(bits, lane));
    const F32Vec v = hn::LoadU(d, x + i);
    hn::StoreU(hn::IfThenElse(negative, hn::Neg(v), v), d, x + i);
  }
}

// As rotate and rotate_back.
inline void RotateVector(const Rotation& r, float* x) {
  Signs(r, x);
  Butterflies(r, x);
  SmallMatrix(r, false, x);
}
inline void RotateVectorBack(const Rotation& r, float* x) {
  SmallMatrix(r, true, x);
  Butterflies(r, x);
  Signs(r, x);
}

// ---- encoding ----

// Levels nearest to z, times per_unit, and their codes.
struct GridLevels {
  F32Vec level;
  GridWordVec code;
};
template <Grid g>
HWY_INLINE GridLevels NearestLevels(F32Vec z) {
  const F32Tag d;
  const GridWordTag du;
  const hn::RebindToSigned<F32Tag> di;
  constexpr GridRow kRow = grid_row(g);
  constexpr int kHalf = 1 << (kRow.bits - 1);
  const F32Vec zero = hn::Zero(d);
  const auto negative = hn::Lt(z, zero);
  if constexpr (g == Grid::i8) {
    const F32Vec magnitude = hn::Min(hn::Abs(z), hn::Set(d, 127.0f)), big = hn::Set(d, 0x1p23f);
    const F32Vec rounded = hn::Sub(hn::Add(magnitude, big), big);
    const F32Vec level = hn::IfThenElse(negative, hn::Sub(zero, rounded), rounded);
    return {level, hn::And(hn::BitCast(du, hn::ConvertTo(di, level)), hn::Set(du, 0xFFu))};
  } else if constexpr (!grid_has_signs(g)) {
    const F32Vec above = hn::Max(hn::Add(z, hn::Set(d, static_cast<float>(kHalf))), zero);
    const auto code = hn::ConvertTo(di, hn::Min(above, hn::Set(d, static_cast<float>(2 * kHalf - 1))));
    const F32Vec level =
        hn::MulAdd(hn::ConvertTo(d, code), hn::Set(d, 2.0f), hn::Set(d, static_cast<float>(1 - 2 * kHalf)));
    return {level, hn::BitCast(du, code)};
  } else {
    const F32Vec magnitude = hn::Abs(z);
    F32Vec level = hn::Set(d, static_cast<float>(kRow.magnitudes[0]));
    GridWordVec code = hn::Zero(du);
    for (int i = 1; i < kHalf; ++i) {
      const int twice = kRow.magnitudes[i - 1] + kRow.magnitudes[i];
      const F32Vec border = hn::Set(d, static_cast<float>(twice) * (0.5f / static_cast<float>(kRow.per_unit)));
      const auto beyond = hn::Gt(magnitude, border);
      level = hn::IfThenElse(beyond, hn::Set(d, static_cast<float>(kRow.magnitudes[i])), level);
      code = hn::IfThenElse(hn::RebindMask(du, beyond), hn::Set(du, static_cast<uint32_t>(i)), code);
    }
    const GridWordVec sign =
        hn::IfThenElseZero(hn::RebindMask(du, negative), hn::Set(du, static_cast<uint32_t>(kHalf)));
    return {hn::IfThenElse(negative, hn::Neg(level), level), hn::Or(code, sign)};
  }
}

// Sums of 32 lanes: those of elements i % 32.
struct GridSums {
  alignas(64) float lanes[32] = {};

  HWY_INLINE void Put(int i, F32Vec term) {
    const F32Tag d;
    float* at = lanes + i % 32;
    hn::Store(hn::Add(hn::Load(d, at), term), d, at);
  }
  float Total() {
    for (int apart = 16; apart > 0; apart /= 2) {
      for (int i = 0; i < apart; ++i) lanes[i] += lanes[i + apart];
    }
    return lanes[0];
  }
};

template <Grid g>
float EncodeVectorAs(const float* HWY_RESTRICT y, int dims, u8_t* HWY_RESTRICT codes, bool& finite) {
  const F32Tag d;
  const hn::RebindToSigned<F32Tag> di;
  const int n = static_cast<int>(hn::Lanes(d));
  hn::Vec<decltype(di)> tops = hn::Zero(di);
  for (int i = 0; i < dims; i += n) tops = hn::Max(tops, hn::BitCast(di, hn::Abs(hn::LoadU(d, y + i))));
  const auto most = static_cast<u32_t>(hn::GetLane(hn::MaxOfLanes(di, tops)));
  finite = most < 0x7F800000u;
  if (most == 0 || !finite) {
    __builtin_memset(codes, 0, static_cast<size_t>(dims));
    return 0;
  }
  const GridPower power_of_two = grid_power(most);
  alignas(64) float part[kMostRotatedDim];
  GridSums squares_of_part;
  for (int i = 0; i < dims; i += n) {
    const F32Vec p = hn::Mul(hn::LoadU(d, y + i), hn::Set(d, power_of_two.down));
    hn::Store(p, d, part + i);
    squares_of_part.Put(i, hn::Mul(p, p));
  }
  const float power = squares_of_part.Total();
  const float base = grid_step_base(g, power, dims, most, power_of_two);
  const StepFactors& steps = kStepFactors[static_cast<int>(g)];
  float best = -1, best_along = 1, best_inverse = 1;
  for (int k = 0; k < steps.count; ++k) {
    const float inverse = 1.0f / (base * steps.factors[k]);
    GridSums along_of_lanes, squares_of_lanes;  // squares are whole numbers below 2^24 in each lane
    for (int i = 0; i < dims; i += n) {
      const F32Vec p = hn::Load(d, part + i);
      const F32Vec level = NearestLevels<g>(hn::Mul(p, hn::Set(d, inverse))).level;
      along_of_lanes.Put(i, hn::Mul(p, level));
      squares_of_lanes.Put(i, hn::Mul(level, level));
    }
    int squares = 0;
    for (const float lane : squares_of_lanes.lanes) squares += static_cast<int>(lane);
    const float along = along_of_lanes.Total();
    const float gain = along * along / static_cast<float>(squares);
    if (gain > best) best = gain, best_along = along, best_inverse = inverse;
  }
  const hn::Rebind<uint8_t, F32Tag> d8;
  for (int i = 0; i < dims; i += n) {
    const GridWordVec code = NearestLevels<g>(hn::Mul(hn::Load(d, part + i), hn::Set(d, best_inverse))).code;
    hn::StoreU(hn::DemoteTo(d8, hn::BitCast(di, code)), d8, codes + i);
  }
  return grid_scale(g, power, best_along, dims, power_of_two);
}

// body(std::integral_constant<Grid, g>())
template <class Body>
HWY_INLINE auto WithGrid(Grid g, const Body& body) {
  switch (g) {
    case Grid::i8:
      return body(std::integral_constant<Grid, Grid::i8>());
    case Grid::q6:
      return body(std::integral_constant<Grid, Grid::q6>());
    case Grid::q5:
      return body(std::integral_constant<Grid, Grid::q5>());
    case Grid::q4:
      return body(std::integral_constant<Grid, Grid::q4>());
    case Grid::q3:
      return body(std::integral_constant<Grid, Grid::q3>());
    default:
      return body(std::integral_constant<Grid, Grid::q2>());
  }
}

// As encode_vector.
inline float EncodeVector(Grid g, const float* y, int dims, u8_t* codes, bool& finite) {
  return WithGrid(g, [&](auto grid) HWY_ATTR { return EncodeVectorAs<decltype(grid)::value>(y, dims, codes, finite); });
}

// ---- levels ----

// For code i % 32 of a row: how far its piece is from the bottom of its word, or its sign from the top.
struct PieceShifts {
  alignas(64) uint32_t down[2][32];
  alignas(64) uint32_t up[32];
};
template <Grid g>
constexpr PieceShifts piece_shifts() {
  PieceShifts s{};
  const CodePieces pieces = grid_pieces(g);
  for (int i = 0; i < 32; ++i) {
    for (int k = 0; k < pieces.count; ++k) {
      s.down[k][i] = static_cast<uint32_t>(bit_place(g, i, pieces.piece[k].from).bit % 32);
    }
    if (grid_has_signs(g)) s.up[i] = static_cast<uint32_t>(31 - bit_place(g, i, grid_row(g).bits - 1).bit % 32);
  }
  return s;
}
template <Grid g>
inline constexpr PieceShifts kPieceShifts = piece_shifts<g>();

// As pack_codes.
template <Grid g>
void PackCodesAs(const u8_t* codes, int dims, const PlaneRows& to) {
  constexpr PlaneBits kPlanes = grid_planes(g);
  constexpr CodePieces kPieces = grid_pieces(g);
  uint32_t words[2][kMostRotatedDim / 4] = {};
  for (int k = 0; k < kPieces.count; ++k) {
    const CodePiece piece = kPieces.piece[k];
    const int plane = bit_place(g, 0, piece.from).plane, codes_of_word = 32 / kPlanes.bits[plane];
    for (int i = 0; i < dims; ++i) {
      const uint32_t bits = static_cast<uint32_t>(codes[i] >> piece.from) & ((1u << piece.bits) - 1);
      words[plane][i / codes_of_word] |= bits << kPieceShifts<g>.down[k][i % 32];
    }
  }
  __builtin_memcpy(to.plane[0], words[0], static_cast<size_t>(plane_row_bytes(kPlanes.bits[0], dims)));
  if constexpr (kPlanes.bits[1] > 0) {
    __builtin_memcpy(to.plane[1], words[1], static_cast<size_t>(plane_row_bytes(kPlanes.bits[1], dims)));
  }
}
inline void PackCodes(Grid g, const u8_t* codes, int dims, const PlaneRows& to) {
  WithGrid(g, [&](auto grid) HWY_ATTR { PackCodesAs<decltype(grid)::value>(codes, dims, to); });
}

// The words in which codes [at, at + lanes) of a plane have their pieces.
template <int kBits>
HWY_INLINE GridWordVec WordsOfCodes(const u8_t* plane, int at) {
  const GridWordTag d;
  constexpr int kCodes = 32 / kBits;
  const auto word = [&](int index) {
    uint32_t w;
    __builtin_memcpy(&w, plane + 4 * index, 4);
    return w;
  };
  const int index = at / kCodes;
#if HWY_TARGET <= HWY_AVX3
  if constexpr (kCodes == 8) {
    uint64_t both;
    __builtin_memcpy(&both, plane + 4 * index, 8);
    const __m512i first = _mm512_set1_epi64(0x0302010003020100), second = _mm512_set1_epi64(0x0706050407060504);
    return GridWordVec{
        _mm512_shuffle_epi8(_mm512_set1_epi64(static_cast<int64_t>(both)), _mm512_shuffle_i64x2(first, second, 0x44))};
  }
#endif
  if constexpr (static_cast<int>(hn::MaxLanes(d)) > kCodes) {
    return hn::IfThenElse(hn::Lt(hn::Iota(d, 0), hn::Set(d, static_cast<uint32_t>(kCodes))), hn::Set(d, word(index)),
                          hn::Set(d, word(index + 1)));
  }
  return hn::Set(d, word(index));
}

// The magnitude of an index, or the level of a code of q2. Of 16 lanes bits above the lowest 4 are not looked at, and
// the table repeats itself; otherwise index is masked.
template <Grid g>
HWY_INLINE F32Vec LevelOfIndex(GridWordVec index) {
  const F32Tag d;
  constexpr size_t kEntries = 8;
  alignas(64) static constexpr auto kTable = [] {
    struct {
      float v[16];
    } t{};
    constexpr int kIndices = g == Grid::q2 ? 4 : 1 << (grid_row(g).bits - 1);
    for (int i = 0; i < 16; ++i) t.v[i] = grid_value(g, static_cast<u32_t>(i % kIndices));
    return t;
  }();
#if HWY_TARGET <= HWY_AVX3
  return F32Vec{_mm512_permutexvar_ps(index.raw, hn::Load(d, kTable.v).raw)};
#else
  if constexpr (hn::MaxLanes(F32Tag()) >= kEntries) {
    return hn::TableLookupLanes(hn::Load(d, kTable.v), hn::IndicesFromVec(d, index));
  } else {
    HWY_ALIGN uint32_t i[hn::MaxLanes(F32Tag())];
    HWY_ALIGN float v[hn::MaxLanes(F32Tag())];
    hn::Store(index, GridWordTag(), i);
    for (size_t lane = 0; lane < hn::Lanes(d); ++lane) v[lane] = kTable.v[i[lane]];
    return hn::Load(d, v);
  }
#endif
}

// x with the sign that is the top bit of `words`.
HWY_INLINE F32Vec WithSignOf(F32Vec x, GridWordVec words) {
  const F32Tag d;
  const GridWordTag du;
  return hn::BitCast(d, hn::OrAnd(hn::BitCast(du, x), words, hn::Set(du, 0x80000000u)));
}

// Levels of codes [at, at + lanes) of a row.
template <Grid g>
HWY_INLINE F32Vec LoadLevels(const u8_t* low, const u8_t* high, int at) {
  const F32Tag d;
  const GridWordTag du;
  const hn::RebindToSigned<F32Tag> di;
  if constexpr (g == Grid::i8) {
    const hn::Rebind<int8_t, F32Tag> d8;
    return hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(d8, reinterpret_cast<const int8_t*>(low) + at)));
  } else {
    constexpr PlaneBits kPlanes = grid_planes(g);
    const GridWordVec words = WordsOfCodes<kPlanes.bits[0]>(low, at);
    const GridWordVec down = hn::Load(du, kPieceShifts<g>.down[0] + at % 32);
    GridWordVec first = hn::Shr(words, down);
    if constexpr (!(HWY_TARGET <= HWY_AVX3 && grid_has_signs(g))) {
      first = hn::And(first, hn::Set(du, (1u << grid_pieces(g).piece[0].bits) - 1));
    }
    if constexpr (g == Grid::q2) return LevelOfIndex<g>(first);
    GridWordVec second_words = words;
    if constexpr (kPlanes.bits[1] > 0) second_words = WordsOfCodes<kPlanes.bits[1]>(high, at);
    if constexpr (grid_has_signs(g)) {
      const GridWordVec up = hn::Load(du, kPieceShifts<g>.up + at % 32);
      return WithSignOf(LevelOfIndex<g>(first), hn::Shl(second_words, up));
    } else {
      const GridWordVec next = hn::Load(du, kPieceShifts<g>.down[1] + at % 32);
      const GridWordVec top =
          hn::And(hn::Shr(second_words, next), hn::Set(du, (1u << grid_pieces(g).piece[1].bits) - 1));
      const F32Vec code = hn::ConvertTo(d, hn::BitCast(di, hn::Or(first, hn::ShiftLeft<4>(top))));
      return hn::Sub(code, hn::Set(d, static_cast<float>((1 << grid_row(g).bits) - 1) * 0.5f));
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::cpu
HWY_AFTER_NAMESPACE();

#endif
