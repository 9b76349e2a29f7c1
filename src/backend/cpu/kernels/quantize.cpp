// SPDX-License-Identifier: Apache-2.0
// Weights to block types and e4m3. A block is read to f32, and its scales and codes are searched: quantize-fit-inl.h
// says how. Scales of e4m3 are far apart in memory, so their search goes over the matrix three times.
#include "backend/cpu/kernels/quantize.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/quantize.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "backend/cpu/kernels/lanes-inl.h"
#include "backend/cpu/kernels/quantize-k-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::cpu {
namespace HWY_NAMESPACE {

// Far beyond what any scale of f16 reaches, and its square times 256 is still a float. mxfp4 reaches everything.
template <class Block>
constexpr float kMost = Block::kType == Dtype::mxfp4 ? 0x1.fffffep127f : 0x1p30f;

// `count` elements, a multiple of 16, as f32 within +-limit; whether all are finite.
inline bool LoadBlock(Dtype type, const char* p, i64_t count, float limit, float* to) {
  const F32Tag d;
  auto finite = hn::FirstN(d, hn::Lanes(d));
  const F32Vec most = hn::Set(d, limit);
  for (i64_t i = 0; i < count; i += static_cast<i64_t>(hn::Lanes(d))) {
    const F32Vec x = Lanes(type, p, i, hn::Lanes(d));
    finite = hn::And(finite, hn::IsFinite(x));
    hn::StoreU(hn::Min(hn::Max(x, hn::Neg(most)), most), d, to + i);
  }
  return hn::AllTrue(d, finite);
}

template <class Block>
bool EncodeBlocks(Block type, const QuantizeArgs& a, i64_t first, i64_t last) {
  HWY_ALIGN float x[Block::kWeights];
  const i64_t per_row = a.spec.k / Block::kWeights;
  bool all_finite = true;
  for (i64_t i = first; i < last; ++i) {
    const i64_t r = i / per_row, b = i % per_row;
    auto* to = reinterpret_cast<u8_t*>(row(a.out, r)) + b * Block::kBytes;
    const bool finite =
        LoadBlock(a.x.dtype, row(a.x, r) + b * Block::kWeights * a.x.block_bytes, Block::kWeights, kMost<Block>, x);
    if (finite) {
      EncodeBlock(type, x, to);
    } else {
      EncodeNan(type, to);
    }
    all_finite = all_finite && finite;
  }
  return all_finite;
}

bool QuantizeBlocks(const QuantizeArgs& a, i64_t first, i64_t last) {
  bool finite = true;
  BlockTypes::with(a.out.dtype, [&](auto block) { finite = EncodeBlocks(block, a, first, last); });
  return finite;
}

// ---- e4m3 ----

// Calls body(pointer, count) for the part of each row of a piece: of x and of out.
template <class Body>
inline void ForRows(const QuantizeArgs& a, i64_t piece, const Body& body) {
  const Fp8Pieces pieces(a.spec);
  const i64_t first = piece / pieces.across * pieces.rows, column = piece % pieces.across * pieces.columns;
  const i64_t rows = a.spec.n - first < pieces.rows ? a.spec.n - first : pieces.rows;
  const i64_t count = a.spec.k - column < pieces.columns ? a.spec.k - column : pieces.columns;
  for (i64_t r = first; r < first + rows; ++r) {
    body(row(a.x, r) + column * a.x.block_bytes, row(a.out, r) + column, count);
  }
}

// Elements [i, i + 16) of a row as f32, zeros beyond `count`: always sixteen, so that sums have the same order on every
// instruction set.
inline Lanes16 LoadSixteen(Dtype type, const char* p, i64_t i, i64_t count) {
  const FitTag d;
  Lanes16 x;
  for (int j = 0; j < kFitParts; ++j) {
    const i64_t at = i + j * kFitLanes, left = count - at;
    x.part[j] = WithFloatType(type, [&](auto t) {
      const char* q = p + at * static_cast<i64_t>(sizeof(typename decltype(t)::Raw));
      if (left >= kFitLanes) return LoadF32(t, d, q);
      return left > 0 ? LoadF32Part(t, d, q, static_cast<size_t>(left)) : hn::Zero(d);
    });
  }
  return x;
}

bool Fp8Largest(const QuantizeArgs& a, i64_t piece, float* largest) {
  const FitTag d;
  FitVec most = hn::Zero(d);
  bool finite = true;
  ForRows(a, piece, [&](const char* x, char*, i64_t count) {
    for (i64_t i = 0; i < count; i += kCandidates) {
      const Lanes16 v = LoadSixteen(a.x.dtype, x, i, count);
      for (const FitVec& part : v.part) {
        const auto good = hn::IsFinite(part);
        finite = finite && hn::AllTrue(d, good);
        most = hn::Max(most, hn::IfThenElseZero(good, hn::Abs(part)));
      }
    }
  });
  *largest = hn::GetLane(hn::MaxOfLanes(d, most));
  return finite;
}

void Fp8Errors(const QuantizeArgs& a, i64_t piece, float largest, float (&errors)[kFp8Candidates]) {
  const FitTag d;
  for (int c = 0; c < kFp8Candidates; ++c) {
    const float scale = fp8_scale(largest, c);
    const FitVec s = hn::Set(d, scale), inverse = hn::Set(d, 1.0f / scale);
    Lanes16 sum = Broadcast(0);
    ForRows(a, piece, [&](const char* x, char*, i64_t count) {
      for (i64_t i = 0; i < count; i += kCandidates) {
        const Lanes16 v = LoadSixteen(a.x.dtype, x, i, count);
        for (int j = 0; j < kFitParts; ++j) {
          const FitVec q = Widen(E4m3(), d, Narrow(E4m3(), d, hn::Mul(v.part[j], inverse)));
          const FitVec r = hn::IfThenElseZero(hn::IsFinite(v.part[j]), hn::Sub(v.part[j], hn::Mul(q, s)));
          sum.part[j] = hn::Add(sum.part[j], hn::Mul(r, r));
        }
      }
    });
    float lanes[kCandidates];
    StoreLanes(sum, lanes);
    errors[c] = 0;
    for (const float lane : lanes) errors[c] += lane;
  }
}

void Fp8Encode(const QuantizeArgs& a, i64_t piece, float scale) {
  const F32Tag d;
  const F32Vec inverse = hn::Set(d, 1.0f / scale);
  ForRows(a, piece, [&](const char* x, char* out, i64_t count) {
    ForLanes(count, [&](i64_t i, size_t lanes) {
      PutLanes(Dtype::e4m3, hn::Mul(Lanes(a.x.dtype, x, i, lanes), inverse), out, i, lanes);
    });
  });
}

i64_t FirstNotFinite(const QuantizeArgs& a, i64_t i) {
  const F32Tag d;
  const char* p = row(a.x, i);
  i64_t at = a.spec.k;
  ForLanes(a.spec.k, [&](i64_t j, size_t count) {
    const intptr_t lane = hn::FindFirstTrue(d, hn::Not(hn::IsFinite(Lanes(a.x.dtype, p, j, count))));
    if (lane >= 0 && at == a.spec.k) at = j + lane;
  });
  return at;
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::cpu {

HWY_EXPORT(QuantizeBlocks);
HWY_EXPORT(FirstNotFinite);
HWY_EXPORT(Fp8Largest);
HWY_EXPORT(Fp8Errors);
HWY_EXPORT(Fp8Encode);

bool fp8_largest(const Isa& isa, const QuantizeArgs& args, i64_t piece, float* largest) {
  return FOVEA_CPU_KERNEL(isa, Fp8Largest)(args, piece, largest);
}

void fp8_errors(const Isa& isa, const QuantizeArgs& args, i64_t piece, float largest, float (&errors)[kFp8Candidates]) {
  FOVEA_CPU_KERNEL(isa, Fp8Errors)(args, piece, largest, errors);
}

void fp8_encode(const Isa& isa, const QuantizeArgs& args, i64_t piece, float scale) {
  FOVEA_CPU_KERNEL(isa, Fp8Encode)(args, piece, scale);
}

bool quantize_blocks(const Isa& isa, const QuantizeArgs& args, i64_t first, i64_t last) {
  return FOVEA_CPU_KERNEL(isa, QuantizeBlocks)(args, first, last);
}

i64_t first_not_finite(const Isa& isa, const QuantizeArgs& args, i64_t i) {
  return FOVEA_CPU_KERNEL(isa, FirstNotFinite)(args, i);
}

}  // namespace fovea::cpu
#endif
