// SPDX-License-Identifier: Apache-2.0
#include "ops/sample.h"

namespace fovea {

Status SampleOp::check(const Params&, const Caps&, Spec&) {
  return {};
}
Status SampleOp::fits(const Spec&, const Spec&) {
  return {};
}
Status SampleOp::bind(const Params&, const Spec&, Args&) {
  return {};
}

}  // namespace fovea
