// SPDX-License-Identifier: Apache-2.0
// Random weights of every type in guarded memory, with their values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "fovea/fovea.hpp"
#include "oracle/matmul64.h"
#include "oracle/numbers.h"
#include "support/guarded.h"
#include "support/random.h"

namespace fovea::test {

inline constexpr int32_t kWeightDtypes[] = {FOVEA_F32, FOVEA_F16, FOVEA_BF16, FOVEA_Q4_1, FOVEA_Q8_0};
inline constexpr int32_t kFloatDtypes[] = {FOVEA_F32, FOVEA_F16, FOVEA_BF16};

inline bool is_block(int32_t dtype) {
  return dtype == FOVEA_Q4_1 || dtype == FOVEA_Q8_0;
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
      for (int64_t i = 0; i < k_; ++i) all.push_back(oracle::weight64(dtype_, row(r), i));
    }
    return all;
  }

 private:
  // Block types: random codes under a scale and a minimum of both signs.
  void fill(Rng& rng, std::byte* p) const {
    if (!is_block(dtype_)) {
      const int64_t size = oracle::bytes_of(dtype_);
      for (int64_t i = 0; i < k_; ++i) oracle::encode(dtype_, p + i * size, rng.normal());
      return;
    }
    for (int64_t i = 0; i < k_; i += 32, p += fovea_dtype_bytes(dtype_, 32)) {
      std::generate_n(p, fovea_dtype_bytes(dtype_, 32), [&] { return static_cast<std::byte>(rng.bits()); });
      oracle::encode(FOVEA_F16, p, rng.normal() * (dtype_ == FOVEA_Q4_1 ? 0.1 : 0.01));
      if (dtype_ == FOVEA_Q4_1) oracle::encode(FOVEA_F16, p + 2, rng.normal());
    }
  }

  int32_t dtype_;
  int64_t rows_, k_, stride_;
  Guarded memory_;
  std::byte* data_ = nullptr;
};

}  // namespace fovea::test
