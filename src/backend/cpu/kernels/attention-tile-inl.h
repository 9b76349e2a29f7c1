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

// e^x for x <= 0 within 1 ulp, gradual underflow included; 0 for -inf, exactly 1 for 0, NaN for NaN.
HWY_INLINE F32Vec ExpOfNonPositive(F32Vec x) {
  const F32Tag d;
  const hn::RebindToUnsigned<F32Tag> du;
  // Adding 1.5 * 2^23 rounds to an integer n and leaves it in the low bits.
  const F32Vec z = hn::MulAdd(x, hn::Set(d, 0x1.715476p+0f), hn::Set(d, 0x1.8p23f));
  const F32Vec n = hn::Sub(z, hn::Set(d, 0x1.8p23f));
  // ln 2 in two parts; n times the first is exact.
  const F32Vec r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x));
  // Interpolation of (e^r - 1 - r) / r^2 at Chebyshev nodes.
  F32Vec p = hn::Set(d, 0x1.6d117cp-10f);
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.120be2p-7f));
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.555518p-5f));
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.5554dcp-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.5f));
  p = hn::Add(hn::MulAdd(hn::Mul(r, r), p, r), hn::Set(d, 1.0f));
  // 2^(n + 64), then 2^-64: the second product rounds into the subnormal range.
  const auto power = hn::ShiftLeft<23>(hn::Add(hn::BitCast(du, z), hn::Set(du, 127u + 64u)));
  const F32Vec y = hn::Mul(hn::Mul(p, hn::BitCast(d, power)), hn::Set(d, 0x1p-64f));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -104.0f)), y);
}

// scores[j][lane] = sum_i q[i][lane] * k[j][i] for kKeys keys and kVecs vectors of rows.
// q: [d, q_stride], scores: [.., q_stride].
template <size_t kKeys, size_t kVecs>
HWY_INLINE void ScoresOfKeys(const float* HWY_RESTRICT q, size_t stride, const float* const* k, i64_t dims,
                             float* HWY_RESTRICT scores) {
  const F32Tag d;
  const size_t n = hn::Lanes(d);
  F32Vec sum[kKeys][kVecs];
  const float* key[kKeys];
  Unroll<kKeys>([&](auto j) FOVEA_INLINE_LAMBDA {
    key[j] = k[j];
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
inline void Scores(const float* q, size_t stride, const float* const* k, int begin, int end, i64_t dims,
                   float* scores) {
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

// out[r][c] = out[r][c] * decay[r] + sum_j weights[j][r] * v[j][c] for kRows rows and kVecs vectors of dims, keys in
// ascending order. decay may be null (1).
template <size_t kRows, size_t kVecs>
HWY_INLINE void ValuesOfRows(const float* HWY_RESTRICT weights, size_t stride, const float* const* v, int begin,
                             int end, size_t column, const float* decay, float* HWY_RESTRICT out, size_t out_stride) {
  const F32Tag d;
  const size_t n = hn::Lanes(d);
  F32Vec sum[kRows][kVecs];
  Unroll<kRows>([&](auto r) FOVEA_INLINE_LAMBDA {
    const F32Vec factor = hn::Set(d, decay ? decay[r] : 1.0f);
    Unroll<kVecs>([&](auto c) FOVEA_INLINE_LAMBDA {
      sum[r][c] = hn::Mul(hn::LoadU(d, out + r * out_stride + column + c * n), factor);
    });
  });
  for (int j = begin; j < end; ++j) {
    const float* HWY_RESTRICT row = v[j] + column;
    const float* HWY_RESTRICT w = weights + static_cast<size_t>(j) * stride;
    F32Vec value[kVecs];
    Unroll<kVecs>([&](auto c) FOVEA_INLINE_LAMBDA { value[c] = hn::LoadU(d, row + c * n); });
    Unroll<kRows>([&](auto r) FOVEA_INLINE_LAMBDA {
      const F32Vec x = hn::Set(d, w[r]);
      Unroll<kVecs>([&](auto c) FOVEA_INLINE_LAMBDA { sum[r][c] = hn::MulAdd(x, value[c], sum[r][c]); });
    });
  }
  Unroll<kRows>([&](auto r) FOVEA_INLINE_LAMBDA {
    Unroll<kVecs>([&](auto c) FOVEA_INLINE_LAMBDA { hn::StoreU(sum[r][c], d, out + r * out_stride + column + c * n); });
  });
}

template <size_t kVecs>
inline void ValuesOfColumns(const float* weights, size_t stride, const float* const* v, int begin, int end,
                            size_t column, int rows, const float* decay, float* out, size_t out_stride) {
  const auto run = [&](auto count, int r) FOVEA_INLINE_LAMBDA {
    ValuesOfRows<count, kVecs>(weights + r, stride, v, begin, end, column, decay ? decay + r : nullptr,
                               out + static_cast<size_t>(r) * out_stride, out_stride);
  };
  int r = 0;
  for (; r + 4 <= rows; r += 4) run(std::integral_constant<size_t, 4>(), r);
  if (rows - r >= 2) {
    run(std::integral_constant<size_t, 2>(), r);
    r += 2;
  }
  if (rows - r == 1) run(std::integral_constant<size_t, 1>(), r);
}

// weights: [64, stride], v: pointers of the tile's values, out: [rows, out_stride], dims rounded up to whole vectors.
inline void Values(const float* weights, size_t stride, const float* const* v, int begin, int end, i64_t dims, int rows,
                   const float* decay, float* out, size_t out_stride) {
  const size_t n = hn::Lanes(F32Tag());
  constexpr size_t kVecs = HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64 ? 4 : 2;
  size_t column = 0;
  const size_t width = (static_cast<size_t>(dims) + n - 1) / n * n;
  for (; column + kVecs * n <= width; column += kVecs * n) {
    ValuesOfColumns<kVecs>(weights, stride, v, begin, end, column, rows, decay, out, out_stride);
  }
  for (; column < width; column += n) {
    ValuesOfColumns<1>(weights, stride, v, begin, end, column, rows, decay, out, out_stride);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::cpu
HWY_AFTER_NAMESPACE();

#endif
