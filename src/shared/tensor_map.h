// SPDX-License-Identifier: Apache-2.0
// What the TMA unit of SM90 and later knows of a tensor, and where swizzling puts a byte. Freestanding.
#pragma once

#include "shared/convert.h"

namespace fovea {

// Written by the driver (encode_tensor_map), read by bulk copies: a member of a kernel's block of parameters.
struct alignas(64) TensorMap {
  u64_t words[16] = {};
};
static_assert(sizeof(TensorMap) == 128 && alignof(TensorMap) == 64);

// How many bytes a row of a box has at most, and over which of its 16-byte pieces are exchanged.
enum class Swizzle : i32_t { none, span32, span64, span128 };

constexpr int span_bytes(Swizzle swizzle) {
  return swizzle == Swizzle::span128 ? 128 : swizzle == Swizzle::span64 ? 64 : swizzle == Swizzle::span32 ? 32 : 0;
}

// Where the byte at `offset` of a box lies; the box is aligned to 8 spans. Piece p of the span (16 bytes) goes to p xor
// a number that changes with each 128 bytes, so that a column of pieces meets all banks:
//   span 128: p xor (offset / 128 % 8)    span 64: p xor (offset / 128 % 4)    span 32: p xor (offset / 128 % 2)
constexpr u32_t swizzled(Swizzle swizzle, u32_t offset) {
  const u32_t pieces = static_cast<u32_t>(span_bytes(swizzle)) / 16;
  return pieces == 0 ? offset : offset ^ (offset >> 7 & (pieces - 1)) << 4;
}

}  // namespace fovea
