// SPDX-License-Identifier: Apache-2.0
#include "ops/kv_append.h"

namespace fovea {

Status KvAppendOp::check(const Params&, const Caps&, Spec&) {
  return {};
}
Status KvAppendOp::fits(const Spec&, const Spec&) {
  return {};
}
Status KvAppendOp::bind(const Params&, const Spec&, Args&) {
  return {};
}

}  // namespace fovea
