// SPDX-License-Identifier: Apache-2.0
#include "plan/kv_side.h"

#include <string>

namespace fovea {

Status check_codec_on_cuda(const char* op, const char* name, const KvSideSpec& side) {
  if (!codec_is_grid(side.codec)) return {};
  return unsupported(std::string(op) + ": " + name + ".codec is " + find_codec(static_cast<int>(side.codec))->name +
                     ": no CUDA kernel of this version reads or writes it");
}

}  // namespace fovea
