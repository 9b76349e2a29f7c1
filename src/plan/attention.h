// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "plan/caps.h"
#include "plan/kernel_request.h"
#include "shared/params/attention_cuda.h"

namespace fovea {

// CUDA: one launch of a plan, and the merge after it where keys are cut into pieces.
struct AttentionLaunch {
  AttentionShape shape;
  AttentionCut cut = AttentionCut::whole;
  int kernel = 0;             // in AttentionPlan::kernels
  int merge = -1;             // in AttentionPlan::kernels; -1: none
  int least_rows = -1;        // sequences with more rows than this per kv head are served ..
  int most_rows = INT32_MAX;  // .. and with at most so many
  int64_t slots = 0;          // row blocks
  int units = 0;              // kv heads x parts of d_v
  int together = 1;           // prefill: units whose row blocks run together, long ones first
  int parts = 1;              // of keys, cut parts
  int split_tiles = 0;        // cut fixed
  int max_splits = 1;         // pieces per row block and unit; cut even: unused
  int blocks = 0;             // cut even: of the grid; cut fixed: of the grid's z
};
inline constexpr int kMostAttentionLaunches = 2;

inline constexpr int64_t kNoAmxRows = INT64_MAX;

struct AttentionPlan {
  AttentionSpec spec;
  const char* kernel = "";
  AttentionTiles tiles;                 // CPU
  int64_t least_amx_rows = kNoAmxRows;  // CPU: from so many rows per kv head a sequence is served by AMX tiles
  Workspace workspace;
  std::vector<KernelUse> kernels;  // CUDA
  AttentionLaunch launches[kMostAttentionLaunches];
  int launch_count = 0;
};

// Which of a family's kernels a name stands for: by the rows of each sequence, or one of them for every sequence.
enum class AttentionRole : int { by_rows = 0, prefill = 1, decode = 2 };

// One row of the kernel table: which device and head dims a kernel family serves. A caller may force it by name.
struct AttentionKernel {
  const char* name;
  int32_t device_type;
  int least_d, most_d;       // of d_k and of d_v
  int least_capability = 0;  // CUDA: 10 * major + minor
  AttentionRole role = AttentionRole::by_rows;
  bool e4m3 = false;  // CUDA: serves e4m3 queries over fp8 keys alone
  bool amx = false;   // CPU: needs AMX, serves bf16 alone
};
inline constexpr AttentionKernel kAttentionKernels[] = {
    {"cpu_tiles", FOVEA_CPU, 1, kMaxHeadDim},
    {.name = "cpu_amx", .device_type = FOVEA_CPU, .least_d = 1, .most_d = 256, .amx = true},
    {"sm70", FOVEA_CUDA, 1, kMaxHeadDim, 70, AttentionRole::by_rows},
    {"sm70_prefill", FOVEA_CUDA, 1, kMaxHeadDim, 70, AttentionRole::prefill},
    {"sm70_decode", FOVEA_CUDA, 1, kMaxHeadDim, 70, AttentionRole::decode},
    {"sm75", FOVEA_CUDA, 1, kMaxHeadDim, 75, AttentionRole::by_rows},
    {"sm75_prefill", FOVEA_CUDA, 1, kMaxHeadDim, 75, AttentionRole::prefill},
    {"sm75_decode", FOVEA_CUDA, 1, kMaxHeadDim, 75, AttentionRole::decode},
    {"sm80", FOVEA_CUDA, 1, kMaxHeadDim, 80, AttentionRole::by_rows},
    {"sm80_prefill", FOVEA_CUDA, 1, kMaxHeadDim, 80, AttentionRole::prefill},
    {"sm80_decode", FOVEA_CUDA, 1, kMaxHeadDim, 80, AttentionRole::decode},
    {"sm89", FOVEA_CUDA, 1, kMaxHeadDim, 89, AttentionRole::by_rows, true},
    {"sm89_prefill", FOVEA_CUDA, 1, kMaxHeadDim, 89, AttentionRole::prefill, true},
    {"sm89_decode", FOVEA_CUDA, 1, kMaxHeadDim, 89, AttentionRole::decode, true},
};
const AttentionKernel* find_attention_kernel(const char* name);

// f32 values of one row's partial result: its output, running maximum and sum.
inline int64_t attention_partial_floats(const AttentionSpec& spec) {
  return spec.kv[0].d_v + 2;
}
// What a block of AMX tiles keeps, in f32; backend/cpu/attention.cpp proves that the kernel counts the same.
constexpr int64_t attention_amx_floats(int64_t rows, int64_t d_k, int64_t d_v) {
  const int64_t k32 = (d_k + 31) / 32 * 32, v16 = attention_padded(d_v);
  return at_least(rows * d_k, rows * k32 / 2 + 3072) + 2 * rows * v16 + at_least(64 * rows, 32 * k32) +
         at_least(32 * v16, 16 * attention_padded(at_least(d_k, d_v)) + 16);
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
