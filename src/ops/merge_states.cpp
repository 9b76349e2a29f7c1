// SPDX-License-Identifier: Apache-2.0
#include "ops/merge_states.h"

namespace fovea {

Status MergeStatesOp::check(const Params&, const Caps&, Spec&) {
  return {};
}
Status MergeStatesOp::fits(const Spec&, const Spec&) {
  return {};
}
Status MergeStatesOp::bind(const Params&, const Spec&, Args&) {
  return {};
}

}  // namespace fovea
