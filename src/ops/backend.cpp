// SPDX-License-Identifier: Apache-2.0
#include "ops/backend.h"

namespace fovea {

Status BackendContext::load(std::vector<KernelUse>& kernels, const LoadScope&) {
  if (kernels.empty()) return {};
  return {FOVEA_INTERNAL, "this backend has no device kernels"};
}

Status BackendContext::save_kernels(const std::string&) const {
  return unsupported("this backend has no device kernels");
}

}  // namespace fovea
