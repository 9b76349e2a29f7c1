// SPDX-License-Identifier: Apache-2.0
#include "plan/matmul.h"

namespace fovea {

Status make_plan(const MatmulSpec&, const Caps&, MatmulPlan&) {
  return unsupported("matmul: no kernel yet");
}
std::string explain(const MatmulPlan&) {
  return {};
}

}  // namespace fovea
