// SPDX-License-Identifier: Apache-2.0
// Stretches of a weight row as f32, exactly the values of shared/weights. Included once per Highway target.
#if defined(FOVEA_CPU_WEIGHTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_CPU_WEIGHTS_INL_H_
#undef FOVEA_CPU_WEIGHTS_INL_H_
#else
#define FOVEA_CPU_WEIGHTS_INL_H_
#endif

#include "backend/cpu/kernels/lanes-inl.h"
#include "shared/weights/weights.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::cpu {
namespace HWY_NAMESPACE {

// Half a block: vectors of at most 16 lanes.
using BlockTag = hn::CappedTag<float, 16>;

inline void DecodeBlock(Q4_1, const u8_t* block, float* out) {
  const BlockTag d;
  const hn::RebindToSigned<BlockTag> di;
  const hn::Rebind<uint8_t, BlockTag> d8;
  const auto scale = hn::Set(d, f16_to_f32(u16_at(block + Q4_1::kScaleAt)));
  const auto minimum = hn::Set(d, f16_to_f32(u16_at(block + Q4_1::kMinimumAt)));
  for (size_t i = 0; i < 16; i += hn::Lanes(d)) {
    const auto bytes = hn::PromoteTo(di, hn::LoadU(d8, block + Q4_1::kCodesAt + i));
    const auto low = hn::And(bytes, hn::Set(di, 15));
    const auto high = hn::ShiftRight<4>(bytes);
    hn::StoreU(hn::MulAdd(hn::ConvertTo(d, low), scale, minimum), d, out + i);
    hn::StoreU(hn::MulAdd(hn::ConvertTo(d, high), scale, minimum), d, out + 16 + i);
  }
}

inline void DecodeBlock(Q8_0, const u8_t* block, float* out) {
  const BlockTag d;
  const hn::RebindToSigned<BlockTag> di;
  const hn::Rebind<int8_t, BlockTag> d8;
  const auto scale = hn::Set(d, f16_to_f32(u16_at(block + Q8_0::kScaleAt)));
  const auto* codes = reinterpret_cast<const int8_t*>(block + Q8_0::kCodesAt);
  for (size_t i = 0; i < 32; i += hn::Lanes(d)) {
    hn::StoreU(hn::Mul(hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(d8, codes + i))), scale), d, out + i);
  }
}

template <class Block>
void DecodeBlock(Block, const u8_t* block, float* out) {
  for (int i = 0; i < Block::kWeights; ++i) out[i] = Block::weight(block, i);
}

template <class Block>
HWY_INLINE void DecodeBlocks(Block block, const char* row, i64_t first, i64_t count, float* out) {
  const auto* p = reinterpret_cast<const u8_t*>(row) + first / Block::kWeights * Block::kBytes;
  for (i64_t i = 0; i < count; i += Block::kWeights, p += Block::kBytes) DecodeBlock(block, p, out + i);
}

// Weights [first, first + count) of a row; both are whole blocks. `out` has room for whole vectors: what is beyond
// `count` in the last one becomes 0.
inline void DecodeWeights(Dtype type, const char* row, i64_t first, i64_t count, float* out) {
  if (BlockTypes::with(type, [&](auto block) { DecodeBlocks(block, row, first, count, out); })) return;
  const F32Tag d;
  WithFloatType(type, [&](auto t) {
    using Raw = typename decltype(t)::Raw;
    const char* p = row + first * static_cast<i64_t>(sizeof(Raw));
    ForLanes(count, [&](i64_t i, size_t n) {
      const char* q = p + i * static_cast<i64_t>(sizeof(Raw));
      hn::StoreU(n == hn::Lanes(d) ? LoadF32(t, d, q) : LoadF32Part(t, d, q, n), d, out + i);
    });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::cpu
HWY_AFTER_NAMESPACE();

#endif
