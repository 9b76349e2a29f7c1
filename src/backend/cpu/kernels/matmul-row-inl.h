// SPDX-License-Identifier: Apache-2.0
// One row of x against rows of w: weights go from their codes into the sums, lane by lane in the order of many rows of
// x, but without a panel between. Included once per Highway target.
#if defined(FOVEA_CPU_MATMUL_ROW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_CPU_MATMUL_ROW_INL_H_
#undef FOVEA_CPU_MATMUL_ROW_INL_H_
#else
#define FOVEA_CPU_MATMUL_ROW_INL_H_
#endif

#include <hwy/cache_control.h>

#include "backend/cpu/kernels/weights-inl.h"
#include "shared/params/matmul.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::cpu {
namespace HWY_NAMESPACE {

constexpr i64_t kL = static_cast<i64_t>(hn::MaxLanes(F32Tag()));
constexpr i64_t kN = kMatmulWeights;
constexpr i64_t kAhead = 4096;  // bytes of weights asked for before they are needed

// Rows of w that take turns, so that one's multiply-adds need not wait for each other: as many as have registers.
#if HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_AVX2
constexpr int kTurns = 2;
#else
constexpr int kTurns = 4;
#endif

// Asks for the line `bytes` after p, which may be beyond the matrix.
HWY_INLINE void PrefetchAt(const void* p, i64_t bytes) {
  hwy::Prefetch(reinterpret_cast<const char*>(reinterpret_cast<uintptr_t>(p) + static_cast<uintptr_t>(bytes)));
}

// sum += x . block, and goes on to the next block. `scales`: nothing, or those of the block.
template <class Block, class... Given>
HWY_INLINE void AddBlock(Block block, const u8_t*& p, const float* HWY_RESTRICT x, F32Vec& sum, Given... scales) {
  DecodeBlock(block, p, scales..., [&](size_t i, Scales w) { sum = hn::MulAdd(hn::LoadU(F32Tag(), x + i), w, sum); });
  p += Block::kBytes;
}

// Blocks of 32: two rows take turns, since the sum of one is a chain of dependent multiply-adds.
template <class Block>
HWY_INLINE void DotRows(Block block, const char* row0, const char* row1, const float* HWY_RESTRICT x, i64_t k,
                        i64_t ahead, float* HWY_RESTRICT sums) {
  const F32Tag d;
  F32Vec sum0 = hn::Zero(d), sum1 = hn::Zero(d);
  const auto *p0 = reinterpret_cast<const u8_t*>(row0), *p1 = reinterpret_cast<const u8_t*>(row1);
  const float* end = x + k;
  const auto prefetch = [&](int bytes) {
#pragma GCC unroll 8
    for (int line = 0; line < bytes; line += 64) PrefetchAt(row0, ahead + line);
    ahead += bytes;
  };
  if constexpr (kHasLinearScales<Block>) {
    constexpr int kRun = ScaleRun::kRun;
    static_assert(kRun == 4);
    for (; end - x >= kRun * 32; x += kRun * 32) {
      const ScaleRun s0(block, p0), s1(block, p1);
      prefetch(2 * kRun * Block::kBytes);
      // Not a loop: only then do the sums stay in registers.
      AddBlock(block, p0, x, sum0, s0.At(0));
      AddBlock(block, p1, x, sum1, s1.At(0));
      AddBlock(block, p0, x + 32, sum0, s0.At(1));
      AddBlock(block, p1, x + 32, sum1, s1.At(1));
      AddBlock(block, p0, x + 64, sum0, s0.At(2));
      AddBlock(block, p1, x + 64, sum1, s1.At(2));
      AddBlock(block, p0, x + 96, sum0, s0.At(3));
      AddBlock(block, p1, x + 96, sum1, s1.At(3));
    }
  }
  for (; x < end; x += 32) {
    prefetch(2 * Block::kBytes);
    AddBlock(block, p0, x, sum0);
    AddBlock(block, p1, x, sum1);
  }
  hn::StoreU(sum0, d, sums);
  hn::StoreU(sum1, d, sums + kL);
}

// Blocks of 256 are so long that the next row's begin before one row's sum is done.
template <class Block>
requires(Block::kWeights == 256) HWY_INLINE
    void DotRows(Block block, const char* row0, const char* row1, const float* HWY_RESTRICT x, i64_t k, i64_t ahead,
                 float* HWY_RESTRICT sums) {
  const F32Tag d;
  for (const char* row : {row0, row1}) {
    F32Vec sum = hn::Zero(d);
    const auto* p = reinterpret_cast<const u8_t*>(row);
    for (i64_t i = 0; i < k; i += Block::kWeights, ahead += Block::kBytes) {
#pragma GCC unroll 4
      for (int line = 0; line < Block::kBytes; line += 64) PrefetchAt(row0, ahead + line);
      AddBlock(block, p, x + i, sum);
    }
    hn::StoreU(sum, d, sums);
    sums += kL;
  }
}

// The same of an element type; scale_of(c, k) is what weight k of row c is multiplied by, the same for 128 weights.
template <class Type, class ScaleOf>
HWY_INLINE void DotElements(Type type, const char* const* rows, const float* HWY_RESTRICT x, i64_t k, i64_t ahead,
                            const ScaleOf& scale_of, float* HWY_RESTRICT sums) {
  constexpr i64_t kBytes = static_cast<i64_t>(sizeof(typename Type::Raw));
  const F32Tag d;
  F32Vec acc[kTurns], scale[kTurns];
#pragma GCC unroll 4
  for (int c = 0; c < kTurns; ++c) acc[c] = scale[c] = hn::Zero(d);
  for (i64_t first = 0; first < k; first += kWeightScaleBlock) {
    const i64_t last = k - first < kWeightScaleBlock ? k : first + kWeightScaleBlock;
    if constexpr (Type::dtype == Dtype::e4m3) {
#pragma GCC unroll 4
      for (int c = 0; c < kTurns; ++c) scale[c] = hn::Set(d, scale_of(c, first));
    }
    for (i64_t i = first; i < last; i += kL) {
      const F32Vec xk = hn::LoadU(d, x + i);
      const size_t rest = static_cast<size_t>(last - i);
#pragma GCC unroll 4
      for (i64_t line = 0; line < kTurns * kL * kBytes; line += 64) PrefetchAt(rows[0], ahead + line);
      ahead += kTurns * kL * kBytes;
#pragma GCC unroll 4
      for (int c = 0; c < kTurns; ++c) {
        const char* p = rows[c] + i * kBytes;
        F32Vec w = rest >= static_cast<size_t>(kL) ? LoadWeights(type, d, p) : LoadF32Part(type, d, p, rest);
        if constexpr (Type::dtype == Dtype::e4m3) w = hn::Mul(w, scale[c]);
        acc[c] = hn::MulAdd(xk, w, acc[c]);
      }
    }
  }
#pragma GCC unroll 4
  for (int c = 0; c < kTurns; ++c) hn::StoreU(acc[c], d, sums + c * kL);
}

// sums[c] of a packed row of x and the rows [n, n + count) of w; those of rows after count, up to kN, are anything.
inline void DotRow(const MatmulArgs& a, const float* x, i64_t n, i64_t count, float* sums) {
  const i64_t k = a.spec.k;
  const i64_t size = dtype_block(a.w.dtype), row_bytes = k / size * dtype_block_bytes(a.w.dtype);
  const i64_t stride = a.w.stride[0] / size * dtype_block_bytes(a.w.dtype);
  const i64_t ahead = (kAhead / (row_bytes + 1) + 1) * stride;
  for (i64_t first = 0; first < kN; first += kTurns, sums += kTurns * kL) {
    const char* rows[kTurns];
    i64_t at[kTurns];
    for (int c = 0; c < kTurns; ++c) {
      at[c] = n + (first + c < count ? first + c : 0);
      rows[c] = row(a.w, at[c]);
    }
    const bool blocks = BlockTypes::with(a.w.dtype, [&](auto block) {
      for (int c = 0; c < kTurns; c += 2) DotRows(block, rows[c], rows[c + 1], x, k, ahead, sums + c * kL);
    });
    if (blocks) continue;
    WithFloatType(a.w.dtype, [&](auto type) {
      const auto scale_of = [&](int c, i64_t i) { return weight_scale_at(a.w_scale, a.spec.scale_kind, at[c], i); };
      DotElements(type, rows, x, k, ahead, scale_of, sums);
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::cpu
HWY_AFTER_NAMESPACE();

#endif
