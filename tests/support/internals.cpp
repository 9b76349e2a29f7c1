// SPDX-License-Identifier: Apache-2.0
#include "support/internals.h"

#include "api/context.h"
#include "plan/attention.h"

namespace fovea::test {

std::vector<const char*> attention_kernels(int32_t device_type) {
  std::vector<const char*> names;
  for (const AttentionKernel& row : kAttentionKernels) {
    if (row.device_type == device_type) names.push_back(row.name);
  }
  return names;
}

bool has_operation(const fovea_context* context, int32_t op) {
  const Backend& table = *context->backend;
  switch (op) {
#define FOVEA_OP(name_, Name, NAME, value, text) \
  case FOVEA_OP_##NAME:                          \
    return table.name_ != nullptr;
#include "fovea/operations.def"
#undef FOVEA_OP
    default:
      return false;
  }
}

}  // namespace fovea::test
