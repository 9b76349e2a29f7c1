// SPDX-License-Identifier: Apache-2.0
// A parameter struct with copies of all that it points to on the host (caches, arrays of tensors, RoPE), so that its
// tensors can be redirected to a device. The one place that lists the tensors of each operation.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "fovea/fovea.h"

namespace fovea::test {

// `data` is memory that the operation reads, or writes. `tensor` is null for a stream of a cache.
using Visit = std::function<void(const std::string& name, void*& data, fovea_tensor* tensor, bool written)>;

class CopiedParams {
 public:
  virtual ~CopiedParams() = default;
  virtual void* get() = 0;  // the struct
  // Everything that is present; memory may still be null.
  virtual void visit(const Visit& visit) = 0;
  virtual void force_kernel(const char*) {}  // unless one is forced already
};

// Null for an operation that no device has yet.
std::unique_ptr<CopiedParams> copy_params(int32_t op, const void* params);

}  // namespace fovea::test
