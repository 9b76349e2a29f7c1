// SPDX-License-Identifier: Apache-2.0
// The block types of weights, and one weight of a row: the definition that fast paths are tested against. A block type
// is one struct of a family's header and one name in BlockTypes. Freestanding.
#pragma once

#include "shared/view.h"
#include "shared/weights/k_blocks.h"
#include "shared/weights/linear_blocks.h"
#include "shared/weights/table_blocks.h"

namespace fovea {

template <class... Blocks>
struct BlockList {
  static_assert(((dtype_block(Blocks::kType) == Blocks::kWeights) && ...));
  static_assert(((dtype_block_bytes(Blocks::kType) == Blocks::kBytes) && ...));

  // Calls body(Block()) with the block type of `type`; false where it is none.
  template <class Body>
  static constexpr bool with(Dtype type, const Body& body) {
    return ((type == Blocks::kType && (body(Blocks()), true)) || ...);
  }
};
using BlockTypes = BlockList<Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, MXFP4>;

// The types of weights of matmul and embed, for their checks.
template <class... Blocks>
struct WeightTypes {
  static constexpr int kCount = 4 + static_cast<int>(sizeof...(Blocks));
  int values[kCount] = {static_cast<int>(Dtype::f32), static_cast<int>(Dtype::f16), static_cast<int>(Dtype::bf16),
                        static_cast<int>(Dtype::e4m3), static_cast<int>(Blocks::kType)...};
  constexpr explicit WeightTypes(BlockList<Blocks...>) {}
};
inline constexpr WeightTypes kWeightTypes{BlockTypes()};

// Weight k of a row of packed weights; of e4m3 without its scale.
inline float weight_at(const void* row, Dtype type, i64_t k) {
  const auto* bytes = static_cast<const u8_t*>(row);
  float weight = 0;
  const bool block = BlockTypes::with(type, [&](auto b) {
    using Block = decltype(b);
    weight = Block::weight(bytes + k / Block::kWeights * Block::kBytes, static_cast<int>(k % Block::kWeights));
  });
  return block ? weight : float_at(static_cast<const char*>(row) + k * dtype_block_bytes(type), type);
}

}  // namespace fovea
