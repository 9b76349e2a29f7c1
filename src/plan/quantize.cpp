// SPDX-License-Identifier: Apache-2.0
#include "plan/quantize.h"

namespace fovea {

Status make_plan(const QuantizeSpec& spec, const Caps& caps, QuantizePlan& plan) {
  if (caps.device_type != FOVEA_CPU) return unsupported("quantize: no kernel for this device");
  plan = {.spec = spec, .kernel = "cpu_search", .workspace = {}};
  if (spec.out == Dtype::e4m3) {
    const Fp8Pieces pieces(spec);
    plan.workspace.scratch = static_cast<uint64_t>((pieces.count() + pieces.groups) * kFp8Floats) * sizeof(float);
  }
  return {};
}

std::string explain(const QuantizePlan& plan) {
  const QuantizeSpec& s = plan.spec;
  const std::string types = std::string("quantize: ") + plan.kernel + ", " + find_dtype(static_cast<int>(s.x))->name +
                            " to " + find_dtype(static_cast<int>(s.out))->name;
  const std::string shape = ", for up to " + std::to_string(s.n) + " rows of " + std::to_string(s.k);
  if (s.out == Dtype::e4m3) {
    const Fp8Pieces pieces(s);
    return types + ", eight candidates for each of " + std::to_string(pieces.groups) + " scales; tasks of up to " +
           std::to_string(pieces.rows) + " rows and " + std::to_string(pieces.columns) + " columns" + shape;
  }
  return types + ", sixteen candidate scales together for each block; tasks of " +
         std::to_string(quantize_blocks_per_task(s.out)) + " blocks" + shape;
}

}  // namespace fovea
