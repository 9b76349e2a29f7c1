// SPDX-License-Identifier: Apache-2.0
#include "ops/embed.h"

namespace fovea {

Status EmbedOp::check(const Params&, const Caps&, Spec&) {
  return {};
}
Status EmbedOp::fits(const Spec&, const Spec&) {
  return {};
}
Status EmbedOp::bind(const Params&, const Spec&, Args&) {
  return {};
}

}  // namespace fovea
