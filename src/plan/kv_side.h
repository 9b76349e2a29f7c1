// SPDX-License-Identifier: Apache-2.0
// Which codecs a device's kernels read and write.
#pragma once

#include "base/status.h"
#include "shared/kv/cache.h"

namespace fovea {

// `name`: of the side, "kv.k".
Status check_codec_on_cuda(const char* op, const char* name, const KvSideSpec& side);

}  // namespace fovea
