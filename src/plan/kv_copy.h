// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/status.h"
#include "plan/caps.h"
#include "shared/params/kv_copy.h"

namespace fovea {

// Up to this many pairs are checked for overlap without scratch memory.
inline constexpr int64_t kCopiesWithoutScratch = 512;

struct KvCopyPlan {
  KvCopySpec spec;
  const char* kernel = "";
  Workspace workspace;
};

Status make_plan(const KvCopySpec& spec, const Caps& caps, KvCopyPlan& plan);
std::string explain(const KvCopyPlan& plan);

}  // namespace fovea
