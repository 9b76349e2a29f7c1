// SPDX-License-Identifier: Apache-2.0
// attention: rows of K and V through registers to shared memory, where a family has no asynchronous copies; and rows of
// bf16 as f16, where it has no products of bf16.
//
// A row of bf16 becomes f16 times a power of two of its own, so that its largest element lies in [2^14, 2^15). Elements
// down to 2^-32 of it are exact, and smaller ones are off by less than 2^-40 of it. The powers go where scales of
// tokens go: of K onto logits, of V onto probabilities.
#pragma once

#include "backend/cuda/kernels/attention_work.cuh"
#include "backend/cuda/kernels/copy_registers.cuh"
#include "backend/cuda/kernels/ptx/convert.cuh"

namespace fovea {

// Lanes that share a row of some chunks of 16 bytes.
constexpr int lanes_per_row(int chunks) {
  int lanes = 32;
  while (lanes > 4 && chunks % lanes != 0) lanes /= 2;
  return lanes;
}

// The largest finite magnitude of eight bf16 values, as bits.
inline unsigned largest_bf16(const uint4& x) {
  const unsigned words[4] = {x.x, x.y, x.z, x.w};
  unsigned largest = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const unsigned magnitude = words[i / 2] >> i % 2 * 16 & 0x7FFFu;
    if (magnitude < 0x7F80u) largest = magnitude > largest ? magnitude : largest;
  }
  return largest;
}
// Eight bf16 values times a power of two, in f16.
inline uint4 f16_of_bf16(const uint4& x, float factor) {
  const unsigned words[4] = {x.x, x.y, x.z, x.w};
  unsigned to[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const unsigned low = ptx::f16_of_f32(float_of_bits(words[i] << 16) * factor);
    const unsigned high = ptx::f16_of_f32(float_of_bits(words[i] & 0xFFFF0000u) * factor);
    to[i] = low | high << 16;
  }
  return {to[0], to[1], to[2], to[3]};
}
// 2^e for a row whose largest magnitude has the bits `largest`, with largest 2^-e in [2^14, 2^15) where it is normal.
inline float row_factor(unsigned largest) {
  const int biased = static_cast<int>(largest >> 7) - 14;
  return float_of_bits(static_cast<u32_t>(biased < 1 ? 1 : biased) << 23);
}
inline float inverse_of_power(float factor) {  // of a normal one below 2^127
  return float_of_bits((254u << 23) - bits_of_float(factor));
}

// Copies `keys` rows to shared address `to`; lane first_lane + k has the address of row k, 0 for none. `bytes` of a row
// exist. narrow: from bf16 to f16; scale[k] becomes row k's power of two times `base` of its lane.
template <class Rows, int keys, bool narrow, bool whole>
inline void move_rows_as(unsigned to, u64_t address, int first_lane, int bytes, int align, float base, float* scale) {
  constexpr int kLanes = lanes_per_row(Rows::kChunks), kRows = 32 / kLanes;  // of one pass
  constexpr int kPasses = (Rows::kChunks + kLanes - 1) / kLanes;             // over a row
  constexpr int kMost = (keys + kRows - 1) / kRows;
  constexpr int kWanted = whole && kPasses < 8 ? 8 / kPasses : 1;
  constexpr int kBatch = kWanted < kMost ? kWanted : kMost;  // of rows whose loads are under way together
  const int lane = lane_id(), row = lane / kLanes, chunk = lane % kLanes;
#pragma unroll 1
  for (int i = row; i - row < keys; i += kRows * kBatch) {
    uint4 x[kBatch][kPasses];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int n = min(i + b * kRows, keys - 1);
      const u64_t begin = __shfl_sync(kAllLanes, address, first_lane + n);
      const char* from = reinterpret_cast<const char*>(begin);
#pragma unroll
      for (int p = 0; p < kPasses; ++p) {
        const int at = (p * kLanes + chunk) * 16;
        const bool inside = begin != 0 && (Rows::kChunks % kLanes == 0 || at < Rows::kBytes);
        if constexpr (whole) {
          x[b][p] = {0, 0, 0, 0};
          if (inside) x[b][p] = *reinterpret_cast<const uint4*>(from + at);
        } else {
          x[b][p] = load_16(from + at, inside ? bytes - at : 0, align);
        }
      }
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int n = i + b * kRows;
      if constexpr (narrow) {
        unsigned largest = 0;
#pragma unroll
        for (int p = 0; p < kPasses; ++p) largest = max(largest, largest_bf16(x[b][p]));
#pragma unroll
        for (int step = 1; step < kLanes; step *= 2) {
          largest = max(largest, __shfl_xor_sync(kAllLanes, largest, step));
        }
        const float factor = row_factor(largest), own = __shfl_sync(kAllLanes, base, first_lane + min(n, keys - 1));
        const float inverse = inverse_of_power(factor);
#pragma unroll
        for (int p = 0; p < kPasses; ++p) x[b][p] = f16_of_bf16(x[b][p], inverse);
        if (chunk == 0 && n < keys) scale[n] = own * factor;
      }
      if (n >= keys) continue;
#pragma unroll
      for (int p = 0; p < kPasses; ++p) {
        const int at = (p * kLanes + chunk) * 16;
        if (Rows::kChunks % kLanes == 0 || at < Rows::kBytes) *shared_16(to + n * Rows::kStride + at) = x[b][p];
      }
    }
  }
}
template <class Rows, int keys, bool narrow>
inline void move_rows(unsigned to, u64_t address, int first_lane, int bytes, int align, float base, float* scale) {
  if (align >= 16 && bytes == Rows::kBytes) {
    move_rows_as<Rows, keys, narrow, true>(to, address, first_lane, bytes, align, base, scale);
  } else {
    move_rows_as<Rows, keys, narrow, false>(to, address, first_lane, bytes, align, base, scale);
  }
}

// The same of whole rows that are aligned and lie `stride` bytes apart.
template <class Rows, int keys>
inline void move_even_rows(unsigned to, const char* from, i64_t stride) {
  constexpr int kLanes = lanes_per_row(Rows::kChunks), kRows = 32 / kLanes;
  constexpr int kPasses = (Rows::kChunks + kLanes - 1) / kLanes;
  constexpr int kMost = (keys + kRows - 1) / kRows, kWanted = kPasses < 8 ? 8 / kPasses : 1;
  constexpr int kBatch = kWanted < kMost ? kWanted : kMost;
  const int lane = lane_id(), row = lane / kLanes, chunk = lane % kLanes;
#pragma unroll
  for (int i = 0; i < keys; i += kRows * kBatch) {
    uint4 x[kBatch][kPasses];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const char* source = from + min(i + b * kRows + row, keys - 1) * stride;
#pragma unroll
      for (int p = 0; p < kPasses; ++p) {
        const int at = (p * kLanes + chunk) * 16;
        x[b][p] = *reinterpret_cast<const uint4*>(source + min(at, Rows::kBytes - 16));
      }
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int n = i + b * kRows + row;
#pragma unroll
      for (int p = 0; p < kPasses; ++p) {
        const int at = (p * kLanes + chunk) * 16;
        if (n < keys && at < Rows::kBytes) *shared_16(to + n * Rows::kStride + at) = x[b][p];
      }
    }
  }
}

}  // namespace fovea
