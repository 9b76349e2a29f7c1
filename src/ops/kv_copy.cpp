// SPDX-License-Identifier: Apache-2.0
#include "ops/kv_copy.h"

namespace fovea {

Status KvCopyOp::check(const Params&, const Caps&, Spec&) {
  return {};
}
Status KvCopyOp::fits(const Spec&, const Spec&) {
  return {};
}
Status KvCopyOp::bind(const Params&, const Spec&, Args&) {
  return {};
}

}  // namespace fovea
