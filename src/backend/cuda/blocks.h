// SPDX-License-Identifier: Apache-2.0
// From a call's arguments to the kernel's block of parameters and the shape of its launch, apart from the launch
// itself: tests run kernels on the host with them.
#pragma once

#include "backend/cuda/launch.h"
#include "plan/attention.h"
#include "plan/kv_append.h"
#include "plan/merge_states.h"

namespace fovea::cuda {

// `align`: K's and V's rows are aligned to 16 bytes; `q_align`: so are Q's.
AttentionStart attention_start(const AttentionArgs& args, bool align, bool q_align);
AttentionCudaArgs attention_block(const AttentionArgs& args, const fovea_exec& exec);
void set_launch(const AttentionLaunch& launch, AttentionCudaArgs& block);  // what differs between a plan's launches
LaunchShape attention_shape(const AttentionLaunch& launch);
LaunchShape attention_merge_shape(const AttentionLaunch& launch);

KvAppendBlock kv_append_block(const KvAppendPlan& plan, const KvAppendArgs& args);
// resident_warps: that the device holds at once.
LaunchShape kv_append_shape(const KvAppendPlan& plan, const KvAppendBlock& block, i64_t resident_warps);

// capacity: kFewParts or kMaxParts.
template <int capacity>
MergeStatesBlock<capacity> merge_states_block(const MergeStatesPlan& plan, const MergeStatesArgs& args);
LaunchShape merge_states_shape(i64_t rows, int lanes);

}  // namespace fovea::cuda
