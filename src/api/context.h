// SPDX-License-Identifier: Apache-2.0
// The objects behind the handles of the C interface.
#pragma once

#include <memory>
#include <string>

#include "ops/backend.h"

// Shared by the handle and by every plan made from it, so that either may be destroyed first.
struct fovea_context {
  const fovea::Backend* backend = nullptr;
  std::shared_ptr<fovea::BackendContext> state;
};

struct fovea_plan {
  virtual ~fovea_plan() = default;
  virtual fovea::Status run(const void* params, const fovea_exec& exec) const = 0;
  virtual fovea::Workspace workspace() const = 0;
  virtual std::string explain() const = 0;
};

namespace fovea {

// Hands a text to the caller of a C function: at most `size` bytes with the final 0.
Status copy_text(const std::string& words, char* text, uint64_t size, uint64_t* needed);

// Runs `body`, which returns a Status, and turns what it answers or throws into a code and the thread's message.
template <class Body>
fovea_status guarded(const Body& body) noexcept {
  try {
    return set_last_error(body());
  } catch (const std::length_error&) {  // more than a container can count
    return set_last_error({FOVEA_OUT_OF_MEMORY, "out of memory"});
  } catch (const std::bad_alloc&) {
    return set_last_error({FOVEA_OUT_OF_MEMORY, "out of memory"});  // so short that it needs no memory
  } catch (...) {
    return set_last_error({FOVEA_INTERNAL, "internal fault"});
  }
}

}  // namespace fovea
