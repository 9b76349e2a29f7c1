// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/status.h"
#include "plan/caps.h"
#include "shared/params/glu.h"

namespace fovea {

struct GluPlan {
  GluSpec spec;
  const char* kernel = "";
  Workspace workspace;
};

Status make_plan(const GluSpec& spec, const Caps& caps, GluPlan& plan);
std::string explain(const GluPlan& plan);

}  // namespace fovea
