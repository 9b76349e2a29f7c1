// SPDX-License-Identifier: Apache-2.0
#include "api/context.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "backend/cpu/context.h"
#include "backend/cuda/context.h"
#include "backend/cuda/list_bundle.h"
#include "base/struct_size.h"
#include "fovea/fovea.h"

namespace fovea {

namespace {

const Backend* find_backend(int32_t device_type) {
  const Backend* const backends[] = {&cpu::backend(), &cuda::backend()};
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
    return unsupported("device_type is " + std::to_string(params->device_type) + ": this build has the CPU (" +
                       std::to_string(FOVEA_CPU) + ") and CUDA (" + std::to_string(FOVEA_CUDA) + ")");
  }
  std::unique_ptr<BackendContext> state;
  FOVEA_TRY(backend->create(*params, state));
  *out = new fovea_context{.backend = backend, .state = std::move(state)};
  return {};
}

}  // namespace

Status copy_text(const std::string& words, char* text, uint64_t size, uint64_t* needed) {
  if (text == nullptr && size > 0) return invalid_value("text", "null", "must hold size bytes");
  if (needed != nullptr) *needed = words.size() + 1;
  if (size > 0) {
    const size_t n = std::min<size_t>(size - 1, words.size());
    std::memcpy(text, words.data(), n);
    text[n] = '\0';
  }
  return {};
}

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

fovea_status fovea_context_kernels(const fovea_context* context, char* text, uint64_t size, uint64_t* needed) {
  return guarded([&]() -> Status {
    if (context == nullptr) return fovea::invalid_value("context", "null", "must be a context");
    return fovea::copy_text(context->state->list_kernels(), text, size, needed);
  });
}

fovea_status fovea_context_save_kernels(const fovea_context* context, const char* path) {
  return guarded([&]() -> Status {
    if (context == nullptr) return fovea::invalid_value("context", "null", "must be a context");
    if (path == nullptr) return fovea::invalid_value("path", "null", "must name a file");
    return context->state->save_kernels(path);
  });
}

fovea_status fovea_bundle_kernels(const char* path, char* text, uint64_t size, uint64_t* needed) {
  return guarded([&]() -> Status {
    if (path == nullptr) return fovea::invalid_value("path", "null", "must name a file");
    std::string list;
    FOVEA_TRY(fovea::cuda::list_bundle(path, list));
    return fovea::copy_text(list, text, size, needed);
  });
}

}  // extern "C"
