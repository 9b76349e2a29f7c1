// SPDX-License-Identifier: Apache-2.0
// attention on CUDA: which kernels a plan launches, in which shape.
#pragma once

#include "base/status.h"
#include "plan/attention.h"

namespace fovea {

// Fills the plan's kernels, launches and workspace, or says why there are none.
Status plan_attention_cuda(const AttentionSpec& spec, const Caps& caps, AttentionPlan& plan);
std::string explain_attention_cuda(const AttentionPlan& plan);

}  // namespace fovea
