// SPDX-License-Identifier: Apache-2.0
#include "plan/quantize.h"

namespace fovea {

Status make_plan(const QuantizeSpec& spec, const Caps& caps, QuantizePlan& plan) {
  if (caps.device_type != FOVEA_CPU) return unsupported("quantize: no kernel for this device");
  plan = {.spec = spec, .kernel = "cpu_search", .workspace = {}};
  return {};
}

std::string explain(const QuantizePlan& plan) {
  const QuantizeSpec& s = plan.spec;
  return std::string("quantize: ") + plan.kernel + ", " + find_dtype(static_cast<int>(s.x))->name + " to " +
         find_dtype(static_cast<int>(s.out))->name + ", sixteen candidate scales together for each block; tasks of " +
         std::to_string(quantize_blocks_per_task(s.out)) + " blocks, for up to " + std::to_string(s.n) + " rows of " +
         std::to_string(s.k);
}

}  // namespace fovea
