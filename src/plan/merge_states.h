// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/status.h"
#include "plan/caps.h"
#include "shared/params/merge_states.h"

namespace fovea {

struct MergeStatesPlan {
  MergeStatesSpec spec;
  const char* kernel = "";
  Workspace workspace;
};

Status make_plan(const MergeStatesSpec& spec, const Caps& caps, MergeStatesPlan& plan);
std::string explain(const MergeStatesPlan& plan);

}  // namespace fovea
