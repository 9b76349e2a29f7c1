// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/status.h"
#include "plan/caps.h"
#include "shared/params/norm.h"

namespace fovea {

struct NormPlan {
  NormSpec spec;
  const char* kernel = "";
  Workspace workspace;
};

Status make_plan(const NormSpec& spec, const Caps& caps, NormPlan& plan);
std::string explain(const NormPlan& plan);

}  // namespace fovea
