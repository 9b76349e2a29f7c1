// SPDX-License-Identifier: Apache-2.0
// Random weights of every type in guarded memory, with their values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "fovea/fovea.hpp"
#include "oracle/numbers.h"
#include "oracle/weights64.h"
#include "support/guarded.h"
#include "support/random.h"

namespace fovea::test {

// A block type, its weights, and where its f16 scales (and minimums) stand in a block, in bytes; -1: none.
struct BlockLayout {
  int32_t dtype;
  int64_t weights;
  int scales[2];
};
inline constexpr BlockLayout kBlockLayouts[] = {
    {FOVEA_Q4_0, 32, {0, -1}}, {FOVEA_Q4_1, 32, {0, 2}},     {FOVEA_Q5_0, 32, {0, -1}},    {FOVEA_Q5_1, 32, {0, 2}},
    {FOVEA_Q8_0, 32, {0, -1}}, {FOVEA_Q2_K, 256, {80, 82}},  {FOVEA_Q3_K, 256, {108, -1}}, {FOVEA_Q4_K, 256, {0, 2}},
    {FOVEA_Q5_K, 256, {0, 2}}, {FOVEA_Q6_K, 256, {208, -1}}, {FOVEA_IQ4_NL, 32, {0, -1}},  {FOVEA_MXFP4, 32, {-1, -1}},
};
inline constexpr int32_t kWeightDtypes[] = {FOVEA_F32,  FOVEA_F16,  FOVEA_BF16, FOVEA_Q4_0,   FOVEA_Q4_1,
                                            FOVEA_Q5_0, FOVEA_Q5_1, FOVEA_Q8_0, FOVEA_Q2_K,   FOVEA_Q3_K,
                                            FOVEA_Q4_K, FOVEA_Q5_K, FOVEA_Q6_K, FOVEA_IQ4_NL, FOVEA_MXFP4};
inline constexpr int32_t kFloatDtypes[] = {FOVEA_F32, FOVEA_F16, FOVEA_BF16};

inline const BlockLayout* block_layout(int32_t dtype) {
  const auto* found = std::find_if(std::begin(kBlockLayouts), std::end(kBlockLayouts),
                                   [&](const BlockLayout& layout) { return layout.dtype == dtype; });
  return found == std::end(kBlockLayouts) ? nullptr : found;
}
inline bool is_block(int32_t dtype) {
  return block_layout(dtype) != nullptr;
}
// Weights that are stored together.
inline int64_t block_of(int32_t dtype) {
  return is_block(dtype) ? block_layout(dtype)->weights : 1;
}

// [rows, k] with `pad` elements (whole blocks of a block type) of poison after each row but the last, and `lead` bytes
// before the first.
class WeightBox {
 public:
  WeightBox(Rng& rng, int32_t dtype, int64_t rows, int64_t k, int64_t pad = 0, Place place = Place::end,
            int64_t lead = 0)
      : dtype_(dtype), rows_(rows), k_(k), stride_(k + pad) {
    const int64_t bytes = rows ? fovea_dtype_bytes(dtype, (rows - 1) * stride_ + k) : 0;
    memory_ = Guarded(static_cast<size_t>(bytes + lead), place);
    data_ = memory_.data() + lead;
    for (int64_t r = 0; r < rows; ++r) fill(rng, row(r));
  }
  fovea_tensor view() const { return fovea::tensor(data_, dtype_, {rows_, k_}, {stride_, 1}); }
  std::byte* row(int64_t r) const { return data_ + fovea_dtype_bytes(dtype_, r * stride_); }
  std::vector<double> values() const {
    std::vector<double> all;
    for (int64_t r = 0; r < rows_; ++r) {
      const std::vector<double> row_values = oracle::weights64(dtype_, row(r), k_);
      all.insert(all.end(), row_values.begin(), row_values.end());
    }
    return all;
  }

 private:
  // Block types: random codes under scales and minimums of both signs.
  void fill(Rng& rng, std::byte* p) const {
    const BlockLayout* layout = block_layout(dtype_);
    if (layout == nullptr) {
      const int64_t size = oracle::bytes_of(dtype_);
      for (int64_t i = 0; i < k_; ++i) oracle::encode(dtype_, p + i * size, rng.normal());
      return;
    }
    const int64_t bytes = fovea_dtype_bytes(dtype_, layout->weights);
    for (int64_t i = 0; i < k_; i += layout->weights, p += bytes) {
      std::generate_n(p, bytes, [&] { return static_cast<std::byte>(rng.bits()); });
      for (const int at : layout->scales) {
        if (at >= 0) oracle::encode(FOVEA_F16, p + at, rng.normal() * 0.1);
      }
      if (dtype_ == FOVEA_MXFP4) *p = static_cast<std::byte>(rng.integer(120, 130));
    }
  }

  int32_t dtype_;
  int64_t rows_, k_, stride_;
  Guarded memory_;
  std::byte* data_ = nullptr;
};

}  // namespace fovea::test
