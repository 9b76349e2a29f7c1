// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/status.h"
#include "plan/caps.h"
#include "shared/params/matmul.h"

namespace fovea {

struct MatmulPlan {
  MatmulSpec spec;
  const char* kernel = "";
  Workspace workspace;
};

Status make_plan(const MatmulSpec& spec, const Caps& caps, MatmulPlan& plan);
std::string explain(const MatmulPlan& plan);

}  // namespace fovea
