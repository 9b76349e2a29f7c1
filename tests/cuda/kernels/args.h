// SPDX-License-Identifier: Apache-2.0
// Blocks of parameters of the kernels that run one instruction each. Shapes are those of one product or copy; `rounds`
// of them lie one after the other.
#pragma once

#include "shared/tensor_map.h"

namespace fovea::cuda_test {

// d = c + a b. Block i makes round i.
struct ProductArgs {
  const u8_t* a = nullptr;   // [rounds][m][k], row major
  const u8_t* b = nullptr;   // [rounds][n][k]: column major; of mma_m8n8k4_f16_row [rounds][k][n]
  const u32_t* c = nullptr;  // [rounds][m][n], 32-bit values
  u32_t* d = nullptr;        // [rounds][m][n]
};

struct WordsArgs {
  const u32_t* in = nullptr;
  u32_t* out = nullptr;
  i64_t n = 0;
};

struct BytesArgs {
  const u8_t* in = nullptr;
  u8_t* out = nullptr;
  i64_t n = 0;
};

struct TensorCopyArgs {
  TensorMap map;
  u8_t* box = nullptr;  // [box_bytes]: as in shared memory
  i32_t at[5] = {};     // coordinates
  i32_t box_bytes = 0;  // a multiple of 16
};

struct WgmmaArgs {
  const u8_t* image_a = nullptr;  // [bytes_a]: operands as they lie in shared memory
  const u8_t* image_b = nullptr;  // [bytes_b]
  const u8_t* rows_a = nullptr;   // [64][steps * 32]: A row major, for registers
  const float* c = nullptr;       // [64][n]
  float* d = nullptr;             // [64][n]
  i32_t bytes_a = 0, bytes_b = 0;
  u32_t leading_a = 0, stride_a = 0, step_a = 0;  // bytes
  u32_t leading_b = 0, stride_b = 0, step_b = 0;
  Swizzle swizzle = Swizzle::none;
  i32_t steps = 0;
  i32_t accumulate = 0;  // 0: c is not added
};

}  // namespace fovea::cuda_test
