// SPDX-License-Identifier: Apache-2.0
#include "api/context.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "backend/cpu/context.h"
#include "base/struct_size.h"
#include "fovea/fovea.h"

namespace fovea {

namespace {

const Backend* find_backend(int32_t device_type) {
  const Backend* const backends[] = {&cpu::backend()};
  const auto* found = std::find_if(std::begin(backends), std::end(backends),
                                   [&](const Backend* b) { return b->device_type == device_type; });
  return found == std::end(backends) ? nullptr : *found;
}

Status create_context(const fovea_context_params* params, fovea_context** out) {
  if (out == nullptr) return invalid_value("out", "null", "must point to where the context goes");
  fovea_context_params defaults;
  if (params == nullptr) params = &defaults;
  FOVEA_TRY(check_struct("params", params));
  const Backend* backend = find_backend(params->device_type);
  if (backend == nullptr) {
    return unsupported("device_type is " + std::to_string(params->device_type) + ": this build has only the CPU (" +
                       std::to_string(FOVEA_CPU) + ")");
  }
  std::unique_ptr<BackendContext> state;
  FOVEA_TRY(backend->create(*params, state));
  *out = new fovea_context{.backend = backend, .state = std::move(state)};
  return {};
}

}  // namespace
}  // namespace fovea

using fovea::guarded;
using fovea::Status;

extern "C" {

fovea_status fovea_context_create(const fovea_context_params* params, fovea_context** out) {
  return guarded([&] { return fovea::create_context(params, out); });
}

void fovea_context_destroy(fovea_context* context) {
  delete context;
}

fovea_status fovea_context_info(const fovea_context* context, fovea_device_info* info) {
  return guarded([&]() -> Status {
    if (context == nullptr) return fovea::invalid_value("context", "null", "must be a context");
    FOVEA_TRY(fovea::check_struct("info", info));
    context->state->describe(*info);
    return {};
  });
}

}  // extern "C"
