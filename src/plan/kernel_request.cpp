// SPDX-License-Identifier: Apache-2.0
#include "plan/kernel_request.h"

namespace fovea {

std::string name(const KernelRequest& request) {
  std::string text(request.entry);
  for (size_t i = 0; i < request.constants.size(); ++i) {
    const KernelConstant& constant = request.constants[i];
    text += (i == 0 ? "<" : ", ") + std::string(constant.name) + "=" + std::to_string(constant.value);
  }
  return request.constants.empty() ? text : text + ">";
}

}  // namespace fovea
