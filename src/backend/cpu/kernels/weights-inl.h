// SPDX-License-Identifier: Apache-2.0
// Stretches of a weight row as f32, exactly the values of shared/weights. Included once per Highway target.
#if defined(FOVEA_CPU_WEIGHTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_CPU_WEIGHTS_INL_H_
#undef FOVEA_CPU_WEIGHTS_INL_H_
#else
#define FOVEA_CPU_WEIGHTS_INL_H_
#endif

#include "backend/cpu/kernels/lanes-inl.h"
#include "backend/cpu/kernels/weights-blocks-inl.h"
#include "shared/weights/scale.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::cpu {
namespace HWY_NAMESPACE {

template <class Block>
HWY_INLINE void DecodeBlocks(Block block, const char* row, i64_t first, i64_t count, float* out) {
  const auto* p = reinterpret_cast<const u8_t*>(row) + first / Block::kWeights * Block::kBytes;
  for (i64_t i = 0; i < count; i += Block::kWeights, p += Block::kBytes) {
    DecodeBlock(block, p, [to = out + i](size_t j, Scales v) { hn::StoreU(v, BlockTag(), to + j); });
  }
}

// A vector of an element type. An instruction for f16 makes NaN quiet, as does what is done with weights next.
template <class Type>
HWY_INLINE F32Vec LoadWeights(Type type, F32Tag d, const char* p) {
  if constexpr (Type::dtype == Dtype::f16) {
    const hn::Rebind<uint16_t, F32Tag> halves;
    return WidenHalves(d, hn::LoadU(halves, reinterpret_cast<const uint16_t*>(p)));
  } else {
    return LoadF32(type, d, p);
  }
}

// The same of an element type; change(v) is what is stored of the vector v.
template <class Type, class Change>
HWY_INLINE void DecodeElements(Type type, const char* row, i64_t first, i64_t count, const Change& change, float* out) {
  const F32Tag d;
  constexpr i64_t kBytes = static_cast<i64_t>(sizeof(typename Type::Raw));
  const i64_t lanes = static_cast<i64_t>(hn::Lanes(d));
  const char* p = row + first * kBytes;
  i64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(change(LoadWeights(type, d, p + i * kBytes)), d, out + i);
  if (i == count) return;
  const size_t rest = static_cast<size_t>(count - i);
  const F32Vec last = change(LoadF32Part(type, d, p + i * kBytes, rest));
  hn::StoreU(hn::IfThenElseZero(hn::FirstN(d, rest), last), d, out + i);
}

// A matrix of weights as kernels read it. `scale` is of e4m3 weights.
struct Weights {
  const View& w;
  const View& scale;
  WeightScale scale_kind;
};

// Weights [first, first + count) of row n; both are whole blocks, and first is one of 128 columns. `out` has room for
// whole vectors: what is beyond `count` in the last one becomes 0.
inline void DecodeWeights(const Weights& weights, i64_t n, i64_t first, i64_t count, float* out) {
  const char* from = row(weights.w, n);
  const Dtype type = weights.w.dtype;
  if (BlockTypes::with(type, [&](auto block) { DecodeBlocks(block, from, first, count, out); })) return;
  if (type == Dtype::e4m3) {
    for (i64_t i = 0; i < count; i += kWeightScaleBlock) {
      const i64_t part = count - i < kWeightScaleBlock ? count - i : kWeightScaleBlock;
      const F32Vec scale = hn::Set(F32Tag(), weight_scale_at(weights.scale, weights.scale_kind, n, first + i));
      DecodeElements(
          E4m3(), from, first + i, part, [&](F32Vec codes) { return hn::Mul(codes, scale); }, out + i);
    }
    return;
  }
  WithFloatType(type, [&](auto t) {
    DecodeElements(
        t, from, first, count, [](F32Vec v) { return v; }, out);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::cpu
HWY_AFTER_NAMESPACE();

#endif
