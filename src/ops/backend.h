// SPDX-License-Identifier: Apache-2.0
// What a backend offers: a table of function pointers, one per operation, null where it has none.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "ops/operations.h"
#include "plan/caps.h"
#include "plan/kernel_request.h"

namespace fovea {

// What loading the kernels of a plan may do.
struct LoadScope {
  bool query = false;      // nothing but say whether it would work: NOT_COMPILED where it takes a compilation
  void* stream = nullptr;  // of the call that plans and runs at once: a capture on it must not see any loading
};

// A backend's own state of one context: threads or modules. Thread-safe.
struct BackendContext {
  virtual ~BackendContext() = default;
  virtual void describe(fovea_device_info& info) const = 0;
  // Makes the kernels of a plan ready and notes them there.
  virtual Status load(std::vector<KernelUse>& kernels, const LoadScope& scope);
  // As fovea_context_kernels and fovea_context_save_kernels.
  virtual std::string list_kernels() const { return ""; }
  virtual Status save_kernels(const std::string& path) const;
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
