// SPDX-License-Identifier: Apache-2.0
// Weights to block types. A block is read to f32, and its scales and codes are searched: quantize-fit-inl.h says how.
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

bool quantize_blocks(const Isa& isa, const QuantizeArgs& args, i64_t first, i64_t last) {
  return FOVEA_CPU_KERNEL(isa, QuantizeBlocks)(args, first, last);
}

i64_t first_not_finite(const Isa& isa, const QuantizeArgs& args, i64_t i) {
  return FOVEA_CPU_KERNEL(isa, FirstNotFinite)(args, i);
}

}  // namespace fovea::cpu
#endif
