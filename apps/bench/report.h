// SPDX-License-Identifier: Apache-2.0
// The result of one benchmark, for people and as JSON.
#pragma once

#include <string>

#include "bench/measure.h"

namespace fovea::bench {

struct Report {
  int32_t op = 0;
  std::string preset;  // empty: none
  Shape shape;
  DeviceInfo device;
  std::string kernel;   // the plan's explanation
  std::string kernels;  // of a device: those that were made ready, as fovea_context_kernels lists them
  uint64_t sets = 0, bytes = 0, seed = 0;
  Work work;
  double plan_seconds = 0;
  int64_t graph = 0;  // calls of a replayed graph; 0: none
  bool early = false;
  Timing timing = {};
  Roof roof = {};
};

std::string to_text(const Report& report);
std::string to_json(const Report& report);

}  // namespace fovea::bench
