// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/status.h"
#include "plan/caps.h"
#include "shared/params/sample.h"

namespace fovea {

struct SamplePlan {
  SampleSpec spec;
  const char* kernel = "";
  Workspace workspace;
};

Status make_plan(const SampleSpec& spec, const Caps& caps, SamplePlan& plan);
std::string explain(const SamplePlan& plan);
std::string edits_text(const SampleSpec& spec);  // "penalties, bit mask"

}  // namespace fovea
