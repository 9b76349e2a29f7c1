// SPDX-License-Identifier: Apache-2.0
// Checks of what attention's index tensors hold, before anything is written.
#pragma once

#include "base/status.h"
#include "shared/params/attention.h"

namespace fovea {

// Lengths, starts and page ids; of the latter only those that a visible key needs are looked at.
Status check_attention_values(const AttentionArgs& args);

}  // namespace fovea
