// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/status.h"
#include "plan/caps.h"
#include "shared/params/kv_append.h"

namespace fovea {

struct KvAppendPlan {
  KvAppendSpec spec;
  const char* kernel = "";
  Workspace workspace;
  RotaryTable table;
};

Status make_plan(const KvAppendSpec& spec, const Caps& caps, KvAppendPlan& plan);
std::string explain(const KvAppendPlan& plan);

}  // namespace fovea
