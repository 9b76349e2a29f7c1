// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/status.h"
#include "plan/caps.h"
#include "shared/params/embed.h"

namespace fovea {

struct EmbedPlan {
  EmbedSpec spec;
  const char* kernel = "";
  Workspace workspace;
};

Status make_plan(const EmbedSpec& spec, const Caps& caps, EmbedPlan& plan);
std::string explain(const EmbedPlan& plan);

}  // namespace fovea
