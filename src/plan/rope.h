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
};

Status make_plan(const RopeSpec& spec, const Caps& caps, RopePlan& plan);
std::string explain(const RopePlan& plan);

}  // namespace fovea
