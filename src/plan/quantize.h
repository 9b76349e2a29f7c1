// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/status.h"
#include "plan/caps.h"
#include "shared/params/quantize.h"

namespace fovea {

struct QuantizePlan {
  QuantizeSpec spec;
  const char* kernel = "";
  Workspace workspace;
};

Status make_plan(const QuantizeSpec& spec, const Caps& caps, QuantizePlan& plan);
std::string explain(const QuantizePlan& plan);

}  // namespace fovea
