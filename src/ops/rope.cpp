// SPDX-License-Identifier: Apache-2.0
#include "ops/rope.h"

namespace fovea {

Status RopeOp::check(const Params&, const Caps&, Spec&) {
  return {};
}
Status RopeOp::fits(const Spec&, const Spec&) {
  return {};
}
Status RopeOp::bind(const Params&, const Spec&, Args&) {
  return {};
}

}  // namespace fovea
