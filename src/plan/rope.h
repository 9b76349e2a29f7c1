// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/status.h"
#include "plan/caps.h"
#include "shared/params/rope.h"

namespace fovea {

struct RopePlan {
  RopeSpec spec;
  const char* kernel = "";
  Workspace workspace;
  RotaryTable table;
};

Status make_plan(const RopeSpec& spec, const Caps& caps, RopePlan& plan);
std::string explain(const RopePlan& plan);

// The frequencies of a spec. An error where the options give one that is no use: not finite, or beyond 2^16 radians per
// position.
Status make_rotary_table(const RotarySpec& spec, RotaryTable& table);
std::string describe(const RotarySpec& spec);  // "NeoX over 64 dims, yarn"

}  // namespace fovea
