// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/status.h"
#include "plan/caps.h"
#include "shared/params/verify.h"

namespace fovea {

struct VerifyPlan {
  VerifySpec spec;
  const char* kernel = "";
  Workspace workspace;
};

Status make_plan(const VerifySpec& spec, const Caps& caps, VerifyPlan& plan);
std::string explain(const VerifyPlan& plan);

}  // namespace fovea
