// SPDX-License-Identifier: Apache-2.0
// merge_states: what a plan is made from, and the block a kernel receives. Freestanding.
#pragma once

#include "shared/view.h"

namespace fovea {

inline constexpr int kMaxParts = 64;

struct MergeStatesSpec {
  int parts = 0;
  int has_lse = 0;
  int has_sinks = 0;
  int padded = 0;  // [batch, tokens, heads, d]
  Dtype out = Dtype::none;
  Dtype outs[kMaxParts] = {};
  i64_t batch = 0;   // 1 where not padded; the most a run may have
  i64_t tokens = 0;  // the most a run may have
  i64_t heads = 0;
  i64_t d = 0;
  bool operator==(const MergeStatesSpec&) const = default;
};

struct MergeStatesArgs {
  MergeStatesSpec spec;
  View outs[kMaxParts];  // [batch or 1, tokens, heads, d]
  View lses[kMaxParts];  // [batch or 1, tokens, heads]
  View out;              // as outs
  View lse;              // as lses
  View sinks;            // [heads]
};

// On a device, for up to `capacity` parts. Strides in bytes; d is packed.
struct MergeTensor {
  char* data = nullptr;  // null: not given
  i64_t batch_stride = 0;
  i64_t token_stride = 0;
  i64_t head_stride = 0;
};

template <int capacity>
struct MergeStatesBlock {
  i64_t rows = 0;    // batch * tokens * heads
  i64_t tokens = 0;  // of one batch entry
  i64_t heads = 0;
  int d = 0;
  int parts = 0;
  int lanes = 1;  // that share a row: a power of two, at most 32
  int wide = 0;   // rows of eight aligned elements, all parts of one type
  Dtype out_type = Dtype::none;
  MergeTensor out;
  MergeTensor lse;
  const float* sinks = nullptr;
  i64_t sinks_stride = 0;  // elements
  u8_t types[capacity] = {};
  MergeTensor outs[capacity];
  MergeTensor lses[capacity];
};

// Enough for almost everyone, and small: parameters are copied on every launch, and more than 4096 bytes of them need a
// driver of CUDA 12.1.
inline constexpr int kFewParts = 32;
static_assert(sizeof(MergeStatesBlock<kFewParts>) <= 4096);
static_assert(sizeof(MergeStatesBlock<kMaxParts>) <= 32764);

}  // namespace fovea
