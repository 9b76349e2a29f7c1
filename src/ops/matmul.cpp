// SPDX-License-Identifier: Apache-2.0
#include "ops/matmul.h"

namespace fovea {

Status MatmulOp::check(const Params&, const Caps&, Spec&) {
  return {};
}
Status MatmulOp::fits(const Spec&, const Spec&) {
  return {};
}
Status MatmulOp::bind(const Params&, const Spec&, Args&) {
  return {};
}

}  // namespace fovea
