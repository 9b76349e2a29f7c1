// SPDX-License-Identifier: Apache-2.0
// backend/cuda/<op>.cpp: the operations that have device kernels.
#pragma once

#include "ops/backend.h"

namespace fovea::cuda {

Status attention(BackendContext&, const AttentionPlan&, const AttentionArgs&, const fovea_exec&);
Status kv_append(BackendContext&, const KvAppendPlan&, const KvAppendArgs&, const fovea_exec&);
Status merge_states(BackendContext&, const MergeStatesPlan&, const MergeStatesArgs&, const fovea_exec&);

}  // namespace fovea::cuda
