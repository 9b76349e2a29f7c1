// SPDX-License-Identifier: Apache-2.0
#include "plan/matmul.h"

#include <algorithm>

namespace fovea {

Status make_plan(const MatmulSpec& spec, const Caps& caps, MatmulPlan& plan) {
  if (caps.device_type != FOVEA_CPU) return unsupported("matmul: no kernel for this device");
  plan = {.spec = spec, .kernel = "cpu_dot", .workspace = {}};
  if (spec.m == 0 || spec.n == 0 || spec.k == 0) return {};
  constexpr int64_t kMost = int64_t{1} << 56;  // elements: far beyond any memory, far below overflow
  if (spec.k > kMost || spec.m > kMost / matmul_packed_k(spec.k)) {
    return invalid_value("x.shape", "[" + std::to_string(spec.m) + ", " + std::to_string(spec.k) + "]",
                         "needs a workspace beyond every memory");
  }
  // x as packed rows of f32, and slack to align them.
  plan.workspace.scratch = static_cast<uint64_t>(spec.m * matmul_packed_k(spec.k)) * sizeof(float) + kMatmulAlign;
  return {};
}

std::string explain(const MatmulPlan& plan) {
  const MatmulSpec& s = plan.spec;
  return std::string("matmul: ") + plan.kernel + ", " + find_dtype(static_cast<int>(s.w))->name +
         " weights decoded to f32" + (s.scale_kind == WeightScale::none ? "" : ", times their scales") +
         ", f32 sums along k; tasks of up to " + std::to_string(std::min<int64_t>(s.m, kMatmulRows)) +
         " rows of x and " + std::to_string(std::min(s.n, matmul_weights_per_task(s.m, s.n, s.k))) +
         " rows of w, for x [" + std::to_string(s.m) + ", " + std::to_string(s.k) + "] and w [" + std::to_string(s.n) +
         ", " + std::to_string(s.k) + "]";
}

}  // namespace fovea
