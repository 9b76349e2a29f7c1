// SPDX-License-Identifier: Apache-2.0
// What a backend offers: a table of function pointers, one per operation, null where it has none.
#pragma once

#include <memory>

#include "base/status.h"
#include "ops/operations.h"
#include "plan/caps.h"

namespace fovea {

// A backend's own state of one context: threads or modules. Thread-safe.
struct BackendContext {
  virtual ~BackendContext() = default;
  virtual void describe(fovea_device_info& info) const = 0;
  Caps caps;
};

struct Backend {
  const char* name = "";
  int32_t device_type = 0;
  Status (*create)(const fovea_context_params& params, std::unique_ptr<BackendContext>& out) = nullptr;
#define FOVEA_OP(name_, Name, NAME, value, text) \
  Status (*name_)(BackendContext&, const Name##Plan&, const Name##Args&, const fovea_exec&) = nullptr;
#include "fovea/operations.def"
#undef FOVEA_OP
};

}  // namespace fovea
