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
  Workspace workspace;
};

Status make_plan(const AttentionSpec& spec, const Caps& caps, AttentionPlan& plan);
std::string explain(const AttentionPlan& plan);

}  // namespace fovea
