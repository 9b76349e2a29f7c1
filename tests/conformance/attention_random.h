// SPDX-License-Identifier: Apache-2.0
// The generator of valid attention calls, shared by the fuzz tests of right and of wrong calls.
#pragma once

#include "support/attention_cases.h"

namespace fovea::test {

SideSpec random_side(Rng& rng, int32_t dims);  // a codec with a scale kind it may have
AttentionCase random_attention(Rng& rng);

}  // namespace fovea::test
