// SPDX-License-Identifier: Apache-2.0
// The two matrix products of an attention tile and the exponential between them. Lanes are rows in the first product
// and dims in the second; each element is one chain of multiply-adds in ascending order, so its bits depend on nothing
// but its own operands. Included once per Highway target.
#if defined(FOVEA_CPU_ATTENTION_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_CPU_ATTENTION_TILE_INL_H_
#undef FOVEA_CPU_ATTENTION_TILE_INL_H_
#else
#define FOVEA_CPU_ATTENTION_TILE_INL_H_
#endif

#include <hwy/highway.h>

#include <utility>

#include "backend/cpu/kernels/convert-inl.h"
#include "backend/cpu/kernels/grid-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::cpu {
namespace HWY_NAMESPACE {

// body(0), ... body(n - 1) with compile-time arguments, so that arrays of vectors stay in registers.
template <class Body, size_t... i>
HWY_INLINE void UnrollOver(const Body& body, std::index_sequence<i...>) {
  (body(std::integral_constant<size_t, i>()), ...);
}
template <size_t n, class Body>
HWY_INLINE void Unroll(const Body& body) {
  UnrollOver(body, std::make_index_sequence<n>());
}
#define FOVEA_INLINE_LAMBDA HWY_ATTR __attribute__((always_inline))

// scores[j][lane] = sum_i q[i][lane] * k[j][i] for kKeys keys and kVecs vectors of rows.
// q: [d, q_stride], scores: [.., q_stride].
template <size_t kKeys, size_t kVecs>
HWY_INLINE void ScoresOfKeys(const float* HWY_RESTRICT q, size_t stride, const char* const* k, i64_t dims,
                             float* HWY_RESTRICT scores) {
  const F32Tag d;
  const size_t n = hn::Lanes(d);
  F32Vec sum[kKeys][kVecs];
  const float* key[kKeys];
  Unroll<kKeys>([&](auto j) FOVEA_INLINE_LAMBDA {
    key[j] = reinterpret_cast<const float*>(k[j]);
    Unroll<kVecs>([&](auto v) FOVEA_INLINE_LAMBDA { sum[j][v] = hn::Zero(d); });
  });
  for (i64_t i = 0; i < dims; ++i, q += stride) {
    F32Vec rows[kVecs];
    Unroll<kVecs>([&](auto v) FOVEA_INLINE_LAMBDA { rows[v] = hn::LoadU(d, q + v * n); });
    Unroll<kKeys>([&](auto j) FOVEA_INLINE_LAMBDA {
      const F32Vec x = hn::Set(d, key[j][i]);
      Unroll<kVecs>([&](auto v) FOVEA_INLINE_LAMBDA { sum[j][v] = hn::MulAdd(rows[v], x, sum[j][v]); });
    });
  }
  Unroll<kKeys>([&](auto j) FOVEA_INLINE_LAMBDA {
    Unroll<kVecs>([&](auto v) FOVEA_INLINE_LAMBDA { hn::StoreU(sum[j][v], d, scores + j * stride + v * n); });
  });
}

// Eight keys at a time; begin and end are multiples of 8. k: pointers of the tile's keys. scores: [64, stride].
inline constexpr int kKeyStep = 8;
inline void Scores(const float* q, size_t stride, const char* const* k, int begin, int end, i64_t dims, float* scores) {
  const size_t n = hn::Lanes(F32Tag());
  // Two vectors of rows and eight keys are 16 sums: as many as 32 registers hold well; with 16 registers, four keys.
  constexpr size_t kKeys = HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64 ? 8 : 4;
  size_t at = 0;
  for (; at + 2 * n <= stride; at += 2 * n) {
    for (int j = begin; j < end; j += static_cast<int>(kKeys)) {
      ScoresOfKeys<kKeys, 2>(q + at, stride, k + j, dims, scores + static_cast<size_t>(j) * stride + at);
    }
  }
  for (; at < stride; at += n) {
    for (int j = begin; j < end; j += 8) {
      ScoresOfKeys<8, 1>(q + at, stride, k + j, dims, scores + static_cast<size_t>(j) * stride + at);
    }
  }
}

// Weights of a tile: those of key j and row r at data[j * key_step + r * row_step].
struct Weights {
  const float* data;
  size_t key_step;
  size_t row_step;
};

// Values of a tile as vectors of f32. ahead may be null: other rows of which the same columns are fetched.
template <class Type>
struct FloatRows {
  static constexpr size_t kBytes = sizeof(typename Type::Raw);
  Type type;
  const char* const* rows;
  const char* const* ahead;

  HWY_INLINE F32Vec Load(int j, size_t column) const { return LoadF32(type, F32Tag(), rows[j] + column * kBytes); }
  HWY_INLINE void Fetch(int j, size_t column, size_t dims) const {
    if (ahead == nullptr) return;
    for (size_t i = 0; i < dims * kBytes; i += 64) __builtin_prefetch(ahead[j] + column * kBytes + i, 0, 2);
  }
  FloatRows WithoutAhead() const { return {type, rows, nullptr}; }
};

template <Grid g>
struct LevelRows {
  const char* const* low;
  const char* const* high;
  const char* const* ahead;  // of the first planes

  HWY_INLINE F32Vec Load(int j, size_t column) const {
    return LoadLevels<g>(reinterpret_cast<const u8_t*>(low[j]), reinterpret_cast<const u8_t*>(high[j]),
                         static_cast<int>(column));
  }
  HWY_INLINE void Fetch(int j, size_t column, size_t dims) const {
    if (ahead == nullptr) return;
    constexpr size_t kBits = static_cast<size_t>(grid_planes(g).bits[0]);
    for (size_t i = 0; i < dims * kBits / 8; i += 64) __builtin_prefetch(ahead[j] + column * kBits / 8 + i, 0, 2);
  }
  LevelRows WithoutAhead() const { return {low, high, nullptr}; }
};

// out[r][c] = out[r][c] * decay[r] + sum_j weights[j][r] * v[j][c] for kRows rows and kVecs vectors of dims, keys in
// ascending order. decay may be null (1).
template <size_t kRows, size_t kVecs, class Rows>
HWY_INLINE void ValuesOfRows(const Rows& v, const Weights& weights, int begin, int end, size_t column,
                             const float* decay, float* HWY_RESTRICT out, size_t out_stride) {
  const F32Tag d;
  const size_t n = hn::Lanes(d);
  F32Vec sum[kRows][kVecs];
  const float* w[kRows];
  Unroll<kRows>([&](auto r) FOVEA_INLINE_LAMBDA {
    w[r] = weights.data + static_cast<size_t>(begin) * weights.key_step + r * weights.row_step;
    const F32Vec factor = hn::Set(d, decay ? decay[r] : 1.0f);
    Unroll<kVecs>([&](auto c) FOVEA_INLINE_LAMBDA {
      sum[r][c] = hn::Mul(hn::LoadU(d, out + r * out_stride + column + c * n), factor);
    });
  });
  size_t at = 0;
  for (int j = begin; j < end; ++j, at += weights.key_step) {
    v.Fetch(j, column, kVecs * n);
    F32Vec value[kVecs];
    Unroll<kVecs>([&](auto c) FOVEA_INLINE_LAMBDA { value[c] = v.Load(j, column + c * n); });
    Unroll<kRows>([&](auto r) FOVEA_INLINE_LAMBDA {
      const F32Vec x = hn::Set(d, w[r][at]);
      Unroll<kVecs>([&](auto c) FOVEA_INLINE_LAMBDA { sum[r][c] = hn::MulAdd(x, value[c], sum[r][c]); });
    });
  }
  Unroll<kRows>([&](auto r) FOVEA_INLINE_LAMBDA {
    Unroll<kVecs>([&](auto c) FOVEA_INLINE_LAMBDA { hn::StoreU(sum[r][c], d, out + r * out_stride + column + c * n); });
  });
}

// Calls run(n, r) for rows r .. r + n - 1, n a compile-time 4, 2 or 1.
template <class Run>
HWY_INLINE void ForRows(int rows, const Run& run) {
  int r = 0;
  for (; r + 4 <= rows; r += 4) run(std::integral_constant<size_t, 4>(), r);
  if (rows - r >= 2) {
    run(std::integral_constant<size_t, 2>(), r);
    r += 2;
  }
  if (rows - r == 1) run(std::integral_constant<size_t, 1>(), r);
}

template <size_t kVecs, class Rows>
inline void ValuesOfColumns(const Rows& v, const Weights& weights, int begin, int end, size_t column, int rows,
                            const float* decay, float* out, size_t out_stride) {
  ForRows(rows, [&](auto count, int r) FOVEA_INLINE_LAMBDA {
    Weights own = weights;
    own.data += static_cast<size_t>(r) * weights.row_step;
    ValuesOfRows<count, kVecs>(r == 0 ? v : v.WithoutAhead(), own, begin, end, column, decay ? decay + r : nullptr,
                               out + static_cast<size_t>(r) * out_stride, out_stride);
  });
}

// out: [rows, out_stride], dims rounded up to whole vectors.
template <class Rows>
inline void Values(const Rows& v, const Weights& weights, int begin, int end, i64_t dims, int rows, const float* decay,
                   float* out, size_t out_stride) {
  const size_t n = hn::Lanes(F32Tag());
  constexpr size_t kVecs = HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64 ? 4 : 2;
  size_t column = 0;
  const size_t width = (static_cast<size_t>(dims) + n - 1) / n * n;
  for (; column + kVecs * n <= width; column += kVecs * n) {
    ValuesOfColumns<kVecs>(v, weights, begin, end, column, rows, decay, out, out_stride);
  }
  for (; column < width; column += n) {
    ValuesOfColumns<1>(v, weights, begin, end, column, rows, decay, out, out_stride);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::cpu
HWY_AFTER_NAMESPACE();

#endif
