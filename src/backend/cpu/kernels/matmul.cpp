// SPDX-License-Identifier: Apache-2.0
// out = x w^T + bias with f32 sums over exact f32 weights.
//
// Lanes run along k: lane l of a vector of L sums the products of k = l, l + L, ... in that order, then the lanes are
// added in a fixed tree and the bias comes last: for one row of x and for many, so the bits of a row depend on L alone.
// A task is up to 96 rows of x against some rows of w: it decodes 8 rows of w by 1024 of k to a panel on the stack
// (32 KiB), runs it over its rows of x in tiles of sums, and keeps partial sums [96][8][L] (48 KiB at L = 16) beside
// it. w is read once per 96 rows of x. One row of x needs no panel (matmul-row-inl.h).
//
// AMD EPYC (family 25, model 17; AVX-512), one thread, 2026-12: 98 GFLOP/s of 117 with 256 rows of x, k = 1536, q4_1.
#include "backend/cpu/kernels/matmul.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/matmul.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "backend/cpu/kernels/matmul-row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::cpu {
namespace HWY_NAMESPACE {

// Rows of x in one tile of sums: with 4 rows of w they fill 16 or 32 vector registers.
#if HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_AVX2
constexpr int kTileRows = 3;
#else
constexpr int kTileRows = 6;
#endif
static_assert(kMatmulPadding % kL == 0 && kMatmulDepth % kMatmulPadding == 0);

// One stretch of k: a panel of rows of w, and where in a packed row of x it begins.
struct Stretch {
  const float* w;
  i64_t w_stride;
  i64_t first;
  i64_t count;  // whole vectors
  bool begin;   // the sums begin here
};

// sums[r][c] += x[r] . w[c], lane by lane, for kR rows of x and kC of w.
template <int kR, int kC>
HWY_INLINE void Tile(const float* HWY_RESTRICT x, i64_t x_stride, const Stretch& s, const float* HWY_RESTRICT w,
                     float* HWY_RESTRICT sums) {
  const F32Tag d;
  F32Vec acc[kR][kC];
#pragma GCC unroll 8
  for (int r = 0; r < kR; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < kC; ++c) acc[r][c] = s.begin ? hn::Zero(d) : hn::LoadU(d, sums + (r * kN + c) * kL);
  }
  for (i64_t k = 0; k < s.count; k += kL) {
    F32Vec wk[kC];
#pragma GCC unroll 8
    for (int c = 0; c < kC; ++c) wk[c] = hn::LoadU(d, w + c * s.w_stride + k);
#pragma GCC unroll 8
    for (int r = 0; r < kR; ++r) {
      const F32Vec xk = hn::LoadU(d, x + r * x_stride + k);
#pragma GCC unroll 8
      for (int c = 0; c < kC; ++c) acc[r][c] = hn::MulAdd(xk, wk[c], acc[r][c]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kR; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < kC; ++c) hn::StoreU(acc[r][c], d, sums + (r * kN + c) * kL);
  }
}

// kR rows of x against the whole panel.
template <int kR>
HWY_INLINE void Rows(const float* x, i64_t x_stride, const Stretch& s, float* sums) {
  constexpr int kC = kR == 1 ? 8 : 4;  // one row: eight sums hide the latency of one multiply-add
  for (int c = 0; c < kN; c += kC) Tile<kR, kC>(x, x_stride, s, s.w + c * s.w_stride, sums + c * kL);
}

// The last rows: fewer than a tile has.
template <int kR>
HWY_INLINE void Rest(const float* x, i64_t x_stride, i64_t rows, const Stretch& s, float* sums) {
  if (rows == kR) return Rows<kR>(x, x_stride, s, sums);
  if constexpr (kR > 1) Rest<kR - 1>(x, x_stride, rows, s, sums);
}

void Panel(const float* x, i64_t x_stride, i64_t rows, const Stretch& s, float* sums) {
  for (x += s.first; rows >= kTileRows; rows -= kTileRows, x += kTileRows * x_stride, sums += kTileRows * kN * kL) {
    Rows<kTileRows>(x, x_stride, s, sums);
  }
  Rest<kTileRows - 1>(x, x_stride, rows, s, sums);
}

using Four = hn::Full128<float>;

// Adds the upper half to the lower until four lanes are left.
template <class D>
HWY_INLINE hn::Vec<Four> Fold(D d, hn::Vec<D> v) {
  if constexpr (hn::MaxLanes(d) == 4) {
    return v;
  } else {
    const hn::Half<D> half;
    return Fold(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
}

// The totals of four vectors of sums.
HWY_INLINE hn::Vec<Four> Totals(const float* sums) {
  const F32Tag d;
  const Four d4;
  const auto a = Fold(d, hn::LoadU(d, sums)), b = Fold(d, hn::LoadU(d, sums + kL));
  const auto e = Fold(d, hn::LoadU(d, sums + 2 * kL)), f = Fold(d, hn::LoadU(d, sums + 3 * kL));
  const auto ab = hn::Add(hn::InterleaveLower(d4, a, b), hn::InterleaveUpper(d4, a, b));
  const auto ef = hn::Add(hn::InterleaveLower(d4, e, f), hn::InterleaveUpper(d4, e, f));
  return hn::Add(hn::ConcatLowerLower(d4, ef, ab), hn::ConcatUpperUpper(d4, ef, ab));
}

// out[m_first .. m_last, n .. n + count) from their sums, with the bias; count is at most kN.
void Finish(const MatmulArgs& a, i64_t m_first, i64_t m_last, i64_t n, i64_t count, const float* sums) {
  const Four d;
  HWY_ALIGN float bias[kN] = {};
  for (i64_t c = 0; a.bias.given() && c < count; ++c) bias[c] = float_at(row(a.bias, n + c), a.bias.dtype);
  WithFloatType(a.out.dtype, [&](auto t) {
    for (i64_t m = m_first; m < m_last; ++m, sums += kN * kL) {
      for (i64_t c = 0; c < count; c += 4) {
        const auto y = a.bias.given() ? hn::Add(Totals(sums + c * kL), hn::LoadU(d, bias + c)) : Totals(sums + c * kL);
        char* p = row(a.out, m, n + c);
        if (count - c >= 4) {
          StoreF32(t, d, y, p);
        } else {
          StoreF32Part(t, d, y, p, static_cast<size_t>(count - c));
        }
      }
    }
  });
}

// The panel of rows [n, n + count) of w for one stretch; rows after count are zeros.
Stretch Decode(const MatmulArgs& a, i64_t n, i64_t count, i64_t first, float* panel) {
  const i64_t depth = a.spec.k - first < kMatmulDepth ? a.spec.k - first : kMatmulDepth;
  const i64_t padded = (depth + kL - 1) / kL * kL;
  Stretch s{.w = panel, .w_stride = kMatmulDepth, .first = first, .count = padded, .begin = first == 0};
  if (a.w.dtype == Dtype::f32 && count == kN && padded == depth) {
    s.w = reinterpret_cast<const float*>(row(a.w, n, first));
    s.w_stride = a.w.stride[0];
    return s;
  }
  for (i64_t c = 0; c < kN; ++c) {
    float* to = panel + c * kMatmulDepth;
    if (c < count) {
      DecodeWeights({a.w, a.w_scale, a.spec.scale_kind}, n + c, first, depth, to);
    } else {
      __builtin_memset(to, 0, static_cast<size_t>(padded) * sizeof(float));
    }
  }
  return s;
}

void MatmulBlock(const MatmulArgs& a, const float* packed, i64_t m_first, i64_t m_last, i64_t n_first, i64_t n_last) {
  HWY_ALIGN float panel[kN * kMatmulDepth];
  HWY_ALIGN float sums[kMatmulRows * kN * kL];
  const i64_t x_stride = matmul_packed_k(a.spec.k), rows = m_last - m_first;
  if (a.spec.k == 0) __builtin_memset(sums, 0, static_cast<size_t>(rows * kN * kL) * sizeof(float));
  const float* x = packed + m_first * x_stride;
  for (i64_t n = n_first; n < n_last; n += kN) {
    const i64_t count = n_last - n < kN ? n_last - n : kN;
    if (rows == 1) DotRow(a, x, n, count, sums);
    for (i64_t first = 0; rows > 1 && first < a.spec.k; first += kMatmulDepth) {
      Panel(x, x_stride, rows, Decode(a, n, count, first, panel), sums);
    }
    Finish(a, m_first, m_last, n, count, sums);
  }
}

void MatmulPack(const MatmulArgs& a, float* packed, i64_t first, i64_t last) {
  const i64_t stride = matmul_packed_k(a.spec.k);
  for (i64_t m = first; m < last; ++m) {
    float* to = packed + m * stride;
    ForLanes(a.spec.k,
             [&](i64_t k, size_t count) { hn::StoreU(Lanes(a.x.dtype, row(a.x, m), k, count), F32Tag(), to + k); });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::cpu {

HWY_EXPORT(MatmulBlock);
HWY_EXPORT(MatmulPack);

void matmul_pack(const Isa& isa, const MatmulArgs& args, float* packed, i64_t first, i64_t last) {
  FOVEA_CPU_KERNEL(isa, MatmulPack)(args, packed, first, last);
}

void matmul_block(const Isa& isa, const MatmulArgs& args, const float* packed, i64_t m_first, i64_t m_last,
                  i64_t n_first, i64_t n_last) {
  FOVEA_CPU_KERNEL(isa, MatmulBlock)(args, packed, m_first, m_last, n_first, n_last);
}

}  // namespace fovea::cpu
#endif
