// SPDX-License-Identifier: Apache-2.0
// Tensors of the device read by the host, for checked calls (FOVEA_EXEC_CHECK): allocates and waits.
#pragma once

#include <memory>
#include <vector>

#include "backend/cuda/context.h"
#include "shared/view.h"

namespace fovea::cuda {

class HostCopy {
 public:
  HostCopy(const CudaContext& context, void* stream) : context_(context), stream_(static_cast<Stream>(stream)) {}

  // Lets a view point at a copy of its elements; the copy lives as long as this.
  template <int dims>
  Status take(ViewOf<dims>& v) {
    if (!v.given()) return {};
    i64_t low = 0, high = 0;  // offsets of elements
    for (int i = 0; i < v.rank; ++i) {
      if (v.shape[i] == 0) return {};
      const i64_t reach = (v.shape[i] - 1) * v.stride[i];
      (reach < 0 ? low : high) += reach;
    }
    const char* from = address(v, low);
    const auto bytes = static_cast<size_t>(address(v, high) + v.block_bytes - from);
    char* to = nullptr;
    FOVEA_TRY(copy(from, bytes, to));
    v.data = to - low * v.block_bytes;
    return {};
  }

 private:
  Status copy(const void* from, size_t bytes, char*& to);

  const CudaContext& context_;
  Stream stream_;
  std::vector<std::unique_ptr<char[]>> copies_;
};

}  // namespace fovea::cuda
