// SPDX-License-Identifier: Apache-2.0
#include "ops/attention.h"

namespace fovea {

Status AttentionOp::check(const Params&, const Caps&, Spec&) {
  return {};
}
Status AttentionOp::fits(const Spec&, const Spec&) {
  return {};
}
Status AttentionOp::bind(const Params&, const Spec&, Args&) {
  return {};
}

}  // namespace fovea
