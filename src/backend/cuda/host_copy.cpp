// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/host_copy.h"

namespace fovea::cuda {

Status HostCopy::copy(const void* from, size_t bytes, char*& to) {
  copies_.push_back(std::make_unique<char[]>(bytes));
  to = copies_.back().get();
  const Driver& driver = context_.driver();
  const ScopedContext scope(context_.primary());
  FOVEA_TRY(scope.status());
  FOVEA_TRY(driver.call(driver.api().memcpy_d2h_async, static_cast<void*>(to), reinterpret_cast<DevicePtr>(from), bytes,
                        stream_));
  return driver.call(driver.api().stream_synchronize, stream_);
}

}  // namespace fovea::cuda
