// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/status.h"
#include "plan/caps.h"
#include "shared/params/attention.h"

namespace fovea {

struct AttentionPlan {
  AttentionSpec spec;
  const char* kernel = "";
  AttentionTiles tiles;
  Workspace workspace;
};

// One row of the kernel table: which device and head dims a kernel family serves.
struct AttentionKernel {
  const char* name;
  int32_t device_type;
  int least_d, most_d;  // of d_k and of d_v
};
inline constexpr AttentionKernel kAttentionKernels[] = {
    {"cpu_tiles", FOVEA_CPU, 1, kMaxHeadDim},
};
const AttentionKernel* find_attention_kernel(const char* name);

// f32 values of one row's partial result: its output, running maximum and sum.
inline int64_t attention_partial_floats(const AttentionSpec& spec) {
  return spec.kv[0].d_v + 2;
}
// Blocks of rows that a run hands out per kv head: enough for every sequence, whatever the lengths.
inline int64_t attention_block_slots(const AttentionSpec& spec, const AttentionTiles& tiles) {
  const int64_t rows = spec.tokens * spec.group;
  if (spec.padded) return spec.batch * ((rows + tiles.block_rows - 1) / tiles.block_rows);
  return rows / tiles.block_rows + spec.batch;
}

Status make_plan(const AttentionSpec& spec, const Caps& caps, AttentionPlan& plan);
std::string explain(const AttentionPlan& plan);

}  // namespace fovea
