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

HWY_BEFORE_NAMESPACE();
namespace fovea::cpu {
namespace HWY_NAMESPACE {

template <class Block>
HWY_INLINE void DecodeBlocks(Block block, const char* row, i64_t first, i64_t count, float* out) {
  const auto* p = reinterpret_cast<const u8_t*>(row) + first / Block::kWeights * Block::kBytes;
  for (i64_t i = 0; i < count; i += Block::kWeights, p += Block::kBytes) DecodeBlock(block, p, out + i);
}

// The same of an element type.
template <class Type>
HWY_INLINE void DecodeElements(Type type, const char* row, i64_t first, i64_t count, float* out) {
  const F32Tag d;
  constexpr i64_t kBytes = static_cast<i64_t>(sizeof(typename Type::Raw));
  const i64_t lanes = static_cast<i64_t>(hn::Lanes(d));
  const char* p = row + first * kBytes;
  i64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(LoadF32(type, d, p + i * kBytes), d, out + i);
  if (i < count) hn::StoreU(LoadF32Part(type, d, p + i * kBytes, static_cast<size_t>(count - i)), d, out + i);
}

// Weights [first, first + count) of a row; both are whole blocks. `out` has room for whole vectors: what is beyond
// `count` in the last one becomes 0.
inline void DecodeWeights(Dtype type, const char* row, i64_t first, i64_t count, float* out) {
  if (BlockTypes::with(type, [&](auto block) { DecodeBlocks(block, row, first, count, out); })) return;
  WithFloatType(type, [&](auto t) { DecodeElements(t, row, first, count, out); });
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::cpu
HWY_AFTER_NAMESPACE();

#endif
